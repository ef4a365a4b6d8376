package parquet

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// plan knows how to check the rows of a type: what parquet-go would write as something else without saying so. It is made
// once for a sink.
type plan struct {
	check check // nil: every row is fine
	size  size
}

// planOf refuses types that parquet-go can't write, or not right.
func planOf(t reflect.Type) (plan, error) {
	if t.Kind() != reflect.Struct || t == timeType {
		return plan{}, fmt.Errorf("%v is not a struct of columns", t)
	}
	return planner{}.structOf(t)
}

var timeType = reflect.TypeFor[time.Time]()

// planner holds the structs that are being looked at, from the outermost on.
type planner struct{ within []reflect.Type }

func (p planner) structOf(t reflect.Type) (plan, error) {
	if slices.Contains(p.within, t) {
		return plan{}, fmt.Errorf("%v contains itself", t)
	}
	p.within = append(slices.Clone(p.within), t)
	var fields []fieldPlan
	if err := p.fields(t, nil, &fields); err != nil {
		return plan{}, err
	}
	if len(fields) == 0 {
		return plan{}, fmt.Errorf("%v has no exported field", t)
	}
	names := make(map[string]bool)
	for _, f := range fields {
		if names[f.name] {
			return plan{}, fmt.Errorf("%v: two fields are column %q", t, f.name)
		}
		names[f.name] = true
	}
	return plan{checkStruct(fields), sizeStruct(fields)}, nil
}

// fieldPlan is a column of a struct.
type fieldPlan struct {
	plan
	name  string
	index []int
}

// fields appends the columns of t, those of embedded structs included.
func (p planner) fields(t reflect.Type, index []int, all *[]fieldPlan) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := parseTag(f.Tag.Get("parquet"))
		at := append(slices.Clone(index), i)
		switch {
		case tag.name == "-" && f.Tag.Get("parquet") != "-,":
		case f.Anonymous:
			if f.Type.Kind() != reflect.Struct || f.Type == timeType || tag.name != "" {
				return fmt.Errorf("%v: field %s is embedded, but only the fields of an embedded struct can be columns; give it a name", t, f.Name)
			}
			if err := p.fields(f.Type, at, all); err != nil {
				return err
			}
		case !f.IsExported():
			if tag.name != "" {
				return fmt.Errorf("%v: field %s has a parquet tag but is not exported", t, f.Name)
			}
		default:
			for _, other := range []string{"parquet-key", "parquet-value", "parquet-element"} {
				if f.Tag.Get(other) != "" {
					return fmt.Errorf("%v: field %s: tag %s is not supported; make the element a struct", t, f.Name, other)
				}
			}
			fp, err := p.value(f.Type, tag)
			if err != nil {
				return fmt.Errorf("%v: field %s: %w", t, f.Name, err)
			}
			name := tag.name
			if name == "" {
				name = f.Name
			}
			*all = append(*all, fieldPlan{fp, name, at})
		}
	}
	return nil
}

// tag is a parquet tag.
type tag struct {
	name    string
	options []string
}

func parseTag(s string) tag {
	parts := strings.Split(s, ",")
	t := tag{name: parts[0]}
	for _, o := range parts[1:] {
		if o != "" {
			t.options = append(t.options, o)
		}
	}
	return t
}

func (t tag) has(option string) bool { return slices.Contains(t.options, option) }

// without returns the options but for some, for what is inside a list or behind a pointer.
func (t tag) without(options ...string) tag {
	rest := slices.DeleteFunc(slices.Clone(t.options), func(o string) bool { return slices.Contains(options, o) })
	return tag{options: rest}
}

// everywhere are options that concern no values.
var everywhere = []string{"plain", "dict", "delta", "split", "uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"}

// allow refuses options that a value of type t can't have, or not with the result that one expects.
func (t tag) allow(typ reflect.Type, options ...string) error {
	for _, o := range t.options {
		if slices.Contains(everywhere, o) || slices.Contains(options, o) || strings.HasPrefix(o, "id(") {
			continue
		}
		if o == "optional" {
			return fmt.Errorf(`"optional" would make null of the zero %v; use a pointer`, typ)
		}
		return fmt.Errorf("option %q is not supported for a %v", o, typ)
	}
	return nil
}

func (p planner) value(t reflect.Type, tag tag) (plan, error) {
	switch {
	case t == timeType:
		return timePlan(tag)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return bytesPlan(t, tag)
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return plan{nil, sizeFixed(int(t.Size()))}, tag.allow(t)
	case reflect.Int32:
		return plan{nil, sizeFixed(4)}, tag.allow(t, "date")
	case reflect.Int64:
		return plan{nil, sizeFixed(8)}, tag.allow(t, timestamps...)
	case reflect.String:
		return textPlan(t, tag)
	case reflect.Array:
		if t.Elem().Kind() != reflect.Uint8 {
			return plan{}, fmt.Errorf("a %v is not supported; use a slice", t)
		}
		if t.Len() == 16 {
			return plan{nil, sizeFixed(16)}, tag.allow(t, "uuid")
		}
		return plan{nil, sizeFixed(t.Len())}, tag.allow(t)
	case reflect.Pointer:
		return p.pointer(t, tag)
	case reflect.Slice:
		return p.slice(t, tag)
	case reflect.Map:
		return p.mapping(t, tag)
	case reflect.Struct:
		if err := tag.allow(t); err != nil {
			return plan{}, err
		}
		return p.structOf(t)
	}
	return plan{}, fmt.Errorf("a %v can't be a column", t)
}

func (p planner) pointer(t reflect.Type, tag tag) (plan, error) {
	switch e := t.Elem(); e.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return plan{}, fmt.Errorf("a %v is not supported; a %v may be nil itself", t, e)
	}
	in, err := p.value(t.Elem(), tag.without("optional"))
	return plan{checkPointer(in.check), sizePointer(in.size)}, err
}

func (p planner) slice(t reflect.Type, tag tag) (plan, error) {
	e := t.Elem()
	if !tag.has("list") {
		isBytes := e.Kind() == reflect.Slice && e.Elem().Kind() == reflect.Uint8
		if e.Kind() == reflect.Pointer || e.Kind() == reflect.Map || e.Kind() == reflect.Slice && !isBytes {
			return plan{}, fmt.Errorf(`a %v needs the option "list" in its tag`, t)
		}
		if tag.has("optional") {
			return plan{}, errors.New(`"optional" without "list" would make null of zero elements; add "list"`)
		}
	}
	inner := tag.without("list", "optional")
	if err := inner.allow(t); err != nil {
		return plan{}, err
	}
	if e.Kind() == reflect.Slice && e.Elem().Kind() != reflect.Uint8 {
		inner.options = append(inner.options, "list")
	}
	in, err := p.value(e, inner)
	return plan{checkSlice(in.check), sizeSlice(in.size)}, err
}

func (p planner) mapping(t reflect.Type, tg tag) (plan, error) {
	if err := tg.allow(t, "optional"); err != nil {
		return plan{}, err
	}
	switch t.Key().Kind() {
	case reflect.String, reflect.Int32, reflect.Int64, reflect.Int:
	default:
		return plan{}, fmt.Errorf("a %v is not supported; keys are strings, int32 or int64", t)
	}
	if t.Elem().Kind() == reflect.Map {
		return plan{}, fmt.Errorf("a %v is not supported; put the inner map into a struct", t)
	}
	key, keyErr := p.value(t.Key(), tag{})
	val, valErr := p.value(t.Elem(), tag{})
	return plan{checkMap(key.check, val.check), sizeMap(key.size, val.size)}, errors.Join(keyErr, valErr)
}
