package pipeline

import "fmt"

type sized interface{ Size() int }

// sizer finds out, once for a sink, how its tuples are measured; nil if they can't be. Nothing it returns allocates.
func sizer[T any](sink Sink[T]) func(*T) int {
	if s, ok := sink.(interface{ Size(T) int }); ok {
		return func(v *T) int { return s.Size(*v) }
	}
	var zero T
	switch any(&zero).(type) {
	case sized:
		return func(v *T) int { return any(v).(sized).Size() }
	case *string:
		return func(v *T) int { return len(*any(v).(*string)) }
	case *[]byte:
		return func(v *T) int { return len(*any(v).(*[]byte)) }
	}
	if _, ok := any(zero).(sized); ok { // T is a pointer with the method
		return func(v *T) int { return any(*v).(sized).Size() }
	}
	return nil
}

func unmeasured[T any]() error {
	return fmt.Errorf("BatchBytes: %T has no method Size() int, nor has the sink Size(%T) int", *new(T), *new(T))
}
