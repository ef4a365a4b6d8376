package sqldb

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// column is one field of the struct and the column it goes to.
type column struct {
	name  string
	index []int // of the field, for reflect
	kind  kind
	holds kind   // what kind is stored, as far as that is known
	ptr   bool   // the field is a pointer
	null  bool   // may be NULL
	key   bool   // one of those that identify a row
	typ   string // the column's type, if the tag gives it
}

// kind is how a field's value is taken and stored.
type kind uint8

const (
	kindBool kind = iota
	kindInt
	kindUint
	kindFloat
	kindText
	kindBytes
	kindTime
	kindValuer // whatever Value returns
)

// String returns the kind as the Go type it stands for.
func (k kind) String() string {
	return [...]string{"bool", "int", "uint", "float", "string", "[]byte", "time.Time", "driver.Valuer"}[k]
}

// planOf finds the columns of a struct. It is done once for a sink; per row only the plan is followed.
func planOf(t reflect.Type) ([]column, error) {
	if t.Kind() != reflect.Struct || isLeaf(t) {
		return nil, fmt.Errorf("%v is not a struct of columns", t)
	}
	columns, err := fieldsOf(t, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("%v has no exported field", t)
	}
	seen := make(map[string]bool)
	for _, c := range columns {
		lower := strings.ToLower(c.name) // names of columns differ by more than case
		if seen[lower] {
			return nil, fmt.Errorf("%v: two fields are column %q", t, c.name)
		}
		seen[lower] = true
	}
	return columns, nil
}

func fieldsOf(t reflect.Type, index []int, columns []column) ([]column, error) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("db")
		at := append(index[:len(index):len(index)], i)
		switch {
		case tag == "-":
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct && !isLeaf(f.Type):
			var err error
			if columns, err = fieldsOf(f.Type, at, columns); err != nil {
				return nil, err
			}
		case !f.IsExported() && tagged:
			return nil, fmt.Errorf("field %s has a db tag but is not exported", f.Name)
		case !f.IsExported():
		default:
			c, err := columnOf(f, tag)
			if err != nil {
				return nil, fmt.Errorf("field %s: %w", f.Name, err)
			}
			c.index = at
			columns = append(columns, c)
		}
	}
	return columns, nil
}

func columnOf(f reflect.StructField, tag string) (column, error) {
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		name = snake(f.Name)
	}
	c := column{name: name}
	for options != "" {
		var o string
		o, options, _ = strings.Cut(options, ",")
		switch typ, isType := strings.CutPrefix(o, "type="); {
		case isType:
			c.typ = typ
		case o == "key":
			c.key = true
		default:
			return c, fmt.Errorf("tag %q: there is no option %q; there are key and type=", tag, o)
		}
	}
	t := f.Type
	if t.Kind() == reflect.Pointer && !implementsValuer(t.Elem()) {
		c.ptr, c.null = true, true
		t = t.Elem()
	}
	var err error
	c.kind, err = kindOf(t)
	c.null = c.null || c.kind == kindBytes || c.kind == kindValuer
	c.holds = c.kind
	if c.kind == kindValuer && t.PkgPath() == "database/sql" && t.Kind() == reflect.Struct { // sql.Null, NullString and so on
		c.holds, err = kindOf(t.Field(0).Type)
	}
	return c, err
}

var (
	valuerType = reflect.TypeFor[driver.Valuer]()
	timeType   = reflect.TypeFor[time.Time]()
)

func implementsValuer(t reflect.Type) bool {
	return t.Implements(valuerType) || reflect.PointerTo(t).Implements(valuerType)
}

func isLeaf(t reflect.Type) bool { return t == timeType || implementsValuer(t) }

func kindOf(t reflect.Type) (kind, error) {
	switch {
	case implementsValuer(t):
		return kindValuer, nil
	case t == timeType:
		return kindTime, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return kindBool, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return kindUint, nil
	case reflect.Float32, reflect.Float64:
		return kindFloat, nil
	case reflect.String:
		return kindText, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return kindBytes, nil
		}
	}
	return 0, fmt.Errorf("a %v is no value of a column; give it a method Value, or leave it out with db:\"-\"", t)
}

// snake turns RouteKey into route_key and HTTPStatus into http_status.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
