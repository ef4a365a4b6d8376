package sqldb_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
	"github.com/metaq-go/metaq/sinks/sqldb"
)

type Count struct {
	Route string `db:"route,key"`
	Hits  int64  `db:"hits"`
}

func Example() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "counts.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	src := pipelinetest.NewSource("counts", []Count{{"/", 1}, {"/orders", 1}, {"/", 2}})
	src.Finish()
	top := pipeline.New("counts", pipeline.Config{Mode: pipeline.Ordered})
	counts := pipeline.From(top, src, pipelinetest.Same[Count])
	counts.To(sqldb.Upsert[Count](db, "counts", sqldb.CreateTable()), pipeline.Batch(1000, time.Second))
	if err := top.Run(context.Background()); err != nil {
		fmt.Println(err)
	}

	rows, _ := db.Query("SELECT route, hits FROM counts ORDER BY route")
	defer rows.Close()
	for rows.Next() {
		var c Count
		_ = rows.Scan(&c.Route, &c.Hits)
		fmt.Println(c.Route, c.Hits)
	}
	// Output:
	// / 2
	// /orders 1
}
