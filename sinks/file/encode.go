package file

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// encoder appends a row to dst.
type encoder[T any] func(dst []byte, v *T) ([]byte, error)

// encoderOf returns what encodes the rows of a sink: f, or JSON.
func encoderOf[T any](f func(dst []byte, v T) ([]byte, error)) encoder[T] {
	if f != nil {
		return func(dst []byte, v *T) ([]byte, error) { return f(dst, *v) }
	}
	j := newJSONLine()
	return func(dst []byte, v *T) ([]byte, error) { return j.append(dst, v) }
}

// line appends a row and a line feed.
func (e encoder[T]) line(dst []byte, v *T) ([]byte, error) {
	begin := len(dst)
	out, err := e(dst, v)
	if err != nil {
		return dst, err
	}
	if len(out) < begin {
		return dst, errors.New("encode returned less than it was given")
	}
	for _, c := range []byte{'\n', 0} {
		if i := bytes.IndexByte(out[begin:], c); i >= 0 {
			return dst, fmt.Errorf("the row has the byte %q at %d, so it is no line", c, i)
		}
	}
	return append(out, '\n'), nil
}

// jsonLine encodes by encoding/json.
type jsonLine struct {
	out []byte
	enc *json.Encoder
}

func newJSONLine() *jsonLine {
	j := &jsonLine{}
	j.enc = json.NewEncoder(j)
	j.enc.SetEscapeHTML(false)
	return j
}

// Write takes what enc has encoded.
func (j *jsonLine) Write(p []byte) (int, error) {
	j.out = append(j.out, p...)
	return len(p), nil
}

var replaced = []byte(`\ufffd`)

func (j *jsonLine) append(dst []byte, v any) ([]byte, error) {
	begin := len(dst)
	j.out = dst
	err := j.enc.Encode(v)
	out := j.out
	j.out = nil
	if err != nil {
		return dst, err
	}
	// What isn't UTF-8 comes out as this escape. So may what a MarshalJSON wrote, so the value decides.
	if bytes.Contains(out[begin:], replaced) {
		if err := checkUTF8(reflect.ValueOf(v), 0); err != nil {
			return dst, err
		}
	}
	return out[:len(out)-1], nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// maxDepth bounds a walk through values that contain themselves; encoding/json would have refused them.
const maxDepth = 1000

// checkUTF8 finds a string in v that encoding/json would not write as it is.
func checkUTF8(v reflect.Value, depth int) error {
	if !v.IsValid() || depth > maxDepth || v.Type().Implements(jsonMarshaler) {
		return nil
	}
	if m, ok := textOf(v); ok {
		text, err := m.MarshalText()
		if err != nil {
			return err
		}
		return validText(string(text))
	}
	switch v.Kind() {
	case reflect.String:
		return validText(v.String())
	case reflect.Pointer, reflect.Interface:
		return checkUTF8(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if err := checkUTF8(v.Field(i), depth+1); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := checkUTF8(v.Index(i), depth+1); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(checkUTF8(it.Key(), depth+1), checkUTF8(it.Value(), depth+1)); err != nil {
				return fmt.Errorf("%v: %w", it.Key(), err)
			}
		}
	}
	return nil
}

func textOf(v reflect.Value) (encoding.TextMarshaler, bool) {
	if !v.Type().Implements(textMarshaler) || !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	m, ok := v.Interface().(encoding.TextMarshaler)
	return m, ok
}

func validText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("the text %.40q is not valid UTF-8; JSON has no way to write it, use []byte for bytes", s)
	}
	return nil
}
