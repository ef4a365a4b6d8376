package parquet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
)

// check returns an error if a value can't be stored as it is.
type check func(v reflect.Value) error

// size estimates the bytes of a value before encoding and compression.
type size func(v reflect.Value) int

func sizeFixed(n int) size { return func(reflect.Value) int { return n } }

func sizeLen(v reflect.Value) int { return v.Len() }

func textPlan(t reflect.Type, tg tag) (plan, error) {
	if err := tg.allow(t, "bytes", "enum", "json", "string"); err != nil {
		return plan{}, err
	}
	switch {
	case tg.has("bytes"):
		return plan{nil, sizeLen}, nil
	case tg.has("json"):
		return plan{func(v reflect.Value) error { return validJSON([]byte(v.String())) }, sizeLen}, nil
	}
	return plan{func(v reflect.Value) error {
		if s := v.String(); !utf8.ValidString(s) {
			return notUTF8(s)
		}
		return nil
	}, sizeLen}, nil
}

func bytesPlan(t reflect.Type, tg tag) (plan, error) {
	if tg.has("json") {
		return plan{func(v reflect.Value) error { return validJSON(v.Bytes()) }, sizeLen}, tg.allow(t, "json")
	}
	if tg.has("string") {
		return plan{func(v reflect.Value) error {
			if !utf8.Valid(v.Bytes()) {
				return notUTF8(string(v.Bytes()))
			}
			return nil
		}, sizeLen}, tg.allow(t, "string", "optional")
	}
	return plan{nil, sizeLen}, tg.allow(t, "optional")
}

func notUTF8(s string) error { return fmt.Errorf("the text %.40q is not valid UTF-8", s) }

func validJSON(b []byte) error {
	if !json.Valid(b) || !utf8.Valid(b) {
		return fmt.Errorf("%.40q is not JSON", b)
	}
	return nil
}

// timestamps are the options for instants.
var timestamps = []string{
	"timestamp", "timestamp(nanosecond)", "timestamp(microsecond)", "timestamp(millisecond)",
	"timestamp(nanosecond:utc)", "timestamp(microsecond:utc)", "timestamp(millisecond:utc)",
}

func timePlan(tg tag) (plan, error) {
	if err := tg.allow(timeType, timestamps...); err != nil {
		return plan{}, err
	}
	unit := int64(time.Second)
	switch {
	case tg.has("timestamp"), tg.has("timestamp(millisecond)"), tg.has("timestamp(millisecond:utc)"):
		unit = 1e3
	case tg.has("timestamp(microsecond)"), tg.has("timestamp(microsecond:utc)"):
		unit = 1e6
	}
	most := math.MaxInt64/unit - 1 // seconds from 1970, either way
	return plan{func(v reflect.Value) error {
		t := *v.Addr().Interface().(*time.Time)
		if s := t.Unix(); s > most || s < -most {
			return fmt.Errorf("the time %v is too far from 1970 for 1/%d s; use timestamp(microsecond), or a pointer for no time", t, unit)
		}
		return nil
	}, sizeFixed(8)}, nil
}

func checkStruct(fields []fieldPlan) check {
	var checked []fieldPlan
	for _, f := range fields {
		if f.check != nil {
			checked = append(checked, f)
		}
	}
	if len(checked) == 0 {
		return nil
	}
	return func(v reflect.Value) error {
		for i := range checked {
			f := &checked[i]
			if err := f.check(f.of(v)); err != nil {
				return fmt.Errorf("column %q: %w", f.name, err)
			}
		}
		return nil
	}
}

// of returns the field of a struct.
func (f *fieldPlan) of(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

func sizeStruct(fields []fieldPlan) size {
	return func(v reflect.Value) int {
		n := 0
		for i := range fields {
			n += fields[i].size(fields[i].of(v))
		}
		return n
	}
}

func checkPointer(in check) check {
	if in == nil {
		return nil
	}
	return func(v reflect.Value) error {
		if v.IsNil() {
			return nil
		}
		return in(v.Elem())
	}
}

func sizePointer(in size) size {
	return func(v reflect.Value) int {
		if v.IsNil() {
			return 1
		}
		return in(v.Elem())
	}
}

func checkSlice(in check) check {
	if in == nil {
		return nil
	}
	return func(v reflect.Value) error {
		for i := range v.Len() {
			if err := in(v.Index(i)); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
}

func sizeSlice(in size) size {
	return func(v reflect.Value) int {
		n := 1
		for i := range v.Len() {
			n += in(v.Index(i))
		}
		return n
	}
}

// checkMap copies what it checks: what a map holds has no address.
func checkMap(key, val check) check {
	if key == nil && val == nil {
		return nil
	}
	return func(v reflect.Value) error {
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(checkCopy(key, it.Key()), checkCopy(val, it.Value())); err != nil {
				return fmt.Errorf("key %.40q: %w", fmt.Sprint(it.Key()), err)
			}
		}
		return nil
	}
}

func checkCopy(c check, v reflect.Value) error {
	if c == nil {
		return nil
	}
	addressable := reflect.New(v.Type()).Elem()
	addressable.Set(v)
	return c(addressable)
}

func sizeMap(key, val size) size {
	return func(v reflect.Value) int {
		n := 1
		for it := v.MapRange(); it.Next(); {
			n += key(it.Key()) + val(it.Value())
		}
		return n
	}
}
