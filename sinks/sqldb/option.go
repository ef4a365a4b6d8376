package sqldb

// Option sets something of a sink.
type Option func(*settings)

type settings struct {
	keys    []string
	create  bool
	dialect Dialect
}

// Key names the columns that identify a row, in addition to those with "key" in their tag. The table needs a primary key or a
// unique index of just these columns.
func Key(columns ...string) Option {
	return func(s *settings) { s.keys = append(s.keys, columns...) }
}

// CreateTable makes the table before the first row if it isn't there, with the key, if there is one, as primary key.
func CreateTable() Option {
	return func(s *settings) { s.create = true }
}

// ForDialect says which SQL the database speaks, for drivers that can't be recognised because something is wrapped around them.
func ForDialect(d Dialect) Option {
	return func(s *settings) { s.dialect = d }
}

// Dialect is a kind of database.
type Dialect uint8

const (
	// Recognise takes the dialect from the type of the database's driver.
	Recognise Dialect = iota
	// SQLite is SQLite 3.37 or later.
	SQLite
)
