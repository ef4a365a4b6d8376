package sqldb

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
)

// field returns the column's field of a row.
func (c *column) field(row reflect.Value) reflect.Value {
	f := row.Field(c.index[0])
	for _, i := range c.index[1:] {
		f = f.Field(i)
	}
	return f
}

// value returns what is stored of a row, which must be addressable. An error means that the row can't be stored.
func (c *column) value(row reflect.Value, d dialect) (any, error) {
	f := c.field(row)
	if c.ptr {
		if f.IsNil() {
			return nil, nil
		}
		f = f.Elem()
	}
	switch c.kind {
	case kindTime:
		return d.time(*f.Addr().Interface().(*time.Time))
	case kindValuer:
		return ofValuer(f, d)
	default:
		return simple(f, c.kind, d)
	}
}

func simple(f reflect.Value, k kind, d dialect) (any, error) {
	switch k {
	case kindBool:
		return f.Bool(), nil
	case kindInt:
		return f.Int(), nil
	case kindUint:
		return d.unsigned(f.Uint())
	case kindFloat:
		return d.float(f.Float())
	case kindText:
		return text(f.String())
	case kindBytes:
		return bytesOrNull(f.Bytes()), nil
	default:
		return nil, fmt.Errorf("a %v is no value of a column", f.Type())
	}
}

func text(s string) (any, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("the text %.40q is not valid UTF-8; use []byte for bytes", s)
	}
	return s, nil
}

// bytesOrNull returns no typed nil: drivers differ in what they store for one.
func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func ofValuer(f reflect.Value, d dialect) (any, error) {
	if f.Kind() == reflect.Pointer && f.IsNil() {
		return nil, nil
	}
	v, ok := f.Interface().(driver.Valuer)
	if !ok {
		v = f.Addr().Interface().(driver.Valuer)
	}
	got, err := v.Value()
	if err != nil || got == nil {
		return nil, err
	}
	if t, ok := got.(time.Time); ok {
		return d.time(t)
	}
	k, err := kindOf(reflect.TypeOf(got)) // sql.Null returns values of any type
	if err != nil {
		return nil, err
	}
	return simple(reflect.ValueOf(got), k, d)
}

// size estimates the bytes of the column in a row.
func (c *column) size(row reflect.Value) int {
	f := c.field(row)
	if c.ptr {
		if f.IsNil() {
			return 1
		}
		f = f.Elem()
	}
	switch c.kind {
	case kindText, kindBytes:
		return f.Len()
	case kindTime:
		return 30
	default:
		return 8
	}
}
