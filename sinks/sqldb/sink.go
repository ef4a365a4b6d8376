package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/metaq-go/metaq/pipeline"
)

// Sink stores rows of type T in a table. Insert and Upsert make one. A Sink is used by one goroutine at a time.
type Sink[T any] struct {
	db      *sql.DB
	dialect dialect
	table   *table
	create  bool

	ready  bool // the table was found to fit
	closed bool
	args   []any // of the batch, row by row
}

// Insert is the sink that adds rows to a table. With a key (in tags or by option Key) a row whose key is there already is
// left out, so that what comes again after a crash is stored once; without a key it is stored twice then.
//
// table may be "schema.table". Insert panics if T can't be mapped to columns: that is a mistake in the program.
func Insert[T any](db *sql.DB, table string, opts ...Option) *Sink[T] {
	return open[T]("Insert", db, table, false, opts)
}

// Upsert is the sink that adds rows to a table and replaces, by the last one written, those with the same key. Otherwise it
// is as Insert, and panics without a key.
func Upsert[T any](db *sql.DB, table string, opts ...Option) *Sink[T] {
	return open[T]("Upsert", db, table, true, opts)
}

func open[T any](what string, db *sql.DB, name string, update bool, opts []Option) *Sink[T] {
	if db == nil {
		panic("sqldb: " + what + " without a database")
	}
	var set settings
	for _, o := range opts {
		o(&set)
	}
	columns, err := planOf(reflect.TypeFor[T]())
	if err == nil {
		var t *table
		if t, err = newTable(name, columns, set.keys, update); err == nil {
			return &Sink[T]{db: db, dialect: set.dialect.of(db), table: t, create: set.create}
		}
	}
	panic(fmt.Sprintf("sqldb: %s into %s: %v", what, name, err))
}

// Prepare creates the table, if that was asked for, and checks that it fits T. The first Write does it; a program that calls
// it before it runs the topology hears of a wrong table at once, while a Write that fails is repeated.
func (s *Sink[T]) Prepare(ctx context.Context) error {
	if s.ready {
		return nil
	}
	if s.create {
		if _, err := s.db.ExecContext(ctx, s.dialect.create(s.table)); err != nil {
			return fmt.Errorf("create table %s: %w", s.table.name, err)
		}
	}
	if err := s.dialect.check(ctx, s.db, s.table); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// Write stores the rows of a batch in one transaction. The error is pipeline.Permanent if a row can't be stored; then none
// is.
func (s *Sink[T]) Write(ctx context.Context, batch []T) error {
	if s.closed {
		return errors.New("write to a sink that is closed")
	}
	if len(batch) == 0 {
		return nil
	}
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	defer s.forget()
	for i := range batch {
		if err := s.take(reflect.ValueOf(&batch[i]).Elem()); err != nil {
			return pipeline.Permanent(fmt.Errorf("table %s: %w", s.table.name, err))
		}
	}
	if err := s.store(ctx); err != nil {
		err = fmt.Errorf("write to table %s: %w", s.table.name, err)
		if s.dialect.permanent(err) {
			return pipeline.Permanent(err)
		}
		return err
	}
	return nil
}

// take appends a row's values to args.
func (s *Sink[T]) take(row reflect.Value) error {
	for i := range s.table.columns {
		c := &s.table.columns[i]
		v, err := c.value(row, s.dialect)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
		s.args = append(s.args, v)
	}
	return nil
}

// forget lets go of the batch's values.
func (s *Sink[T]) forget() {
	clear(s.args)
	s.args = s.args[:0]
}

// store writes args in one transaction: as many rows as possible by statements of many rows, the rest one by one.
func (s *Sink[T]) store(ctx context.Context) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if rollbackErr := tx.Rollback(); !errors.Is(rollbackErr, sql.ErrTxDone) {
				err = errors.Join(err, rollbackErr)
			}
		}
	}()
	args, width := s.args, len(s.table.columns)
	for _, rows := range []int{max(1, s.dialect.parameters()/width), 1} {
		if args, err = s.exec(ctx, tx, args, rows, rows*width); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// exec stores args by a statement of so many rows, n args each, and returns those that are too few for it.
func (s *Sink[T]) exec(ctx context.Context, tx *sql.Tx, args []any, rows, n int) (rest []any, err error) {
	if len(args) < n {
		return args, nil
	}
	stmt, err := tx.PrepareContext(ctx, s.dialect.insert(s.table, rows))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for len(args) >= n {
		if _, err := stmt.ExecContext(ctx, args[:n]...); err != nil {
			return nil, err
		}
		args = args[n:]
	}
	return args, nil
}

// Size estimates the bytes of a row, for pipeline.BatchBytes.
func (s *Sink[T]) Size(v T) int {
	row := reflect.ValueOf(&v).Elem()
	n := 0
	for i := range s.table.columns {
		n += s.table.columns[i].size(row)
	}
	return n
}

// Close ends the sink. The database stays open: it is the caller's.
func (s *Sink[T]) Close(context.Context) error {
	s.closed = true
	return nil
}
