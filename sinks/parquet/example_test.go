package parquet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
	"github.com/metaq-go/metaq/sinks/parquet"
)

type Hit struct {
	Route  string   `parquet:"route,dict"`
	Status int32    `parquet:"status"`
	Tags   []string `parquet:"tags,optional,list"`
}

func Example() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	sink, err := parquet.Open[Hit](parquet.Config{Dir: dir, Prefix: "hits"})
	if err != nil {
		fmt.Println(err)
		return
	}
	src := pipelinetest.NewSource("access", []Hit{{"/", 200, nil}, {"/orders", 503, []string{"retry"}}})
	src.Finish()
	top := pipeline.New("keep", pipeline.Config{Mode: pipeline.Ordered})
	pipeline.From(top, src, pipelinetest.Same[Hit]).To(sink, pipeline.Batch(10_000, time.Second))
	if err := top.Run(context.Background()); err != nil {
		fmt.Println(err)
	}

	names, _ := filepath.Glob(filepath.Join(dir, "hits-*.parquet"))
	for _, name := range names {
		hits, _ := pq.ReadFile[Hit](name)
		fmt.Println(hits)
	}
	// Output: [{/ 200 []} {/orders 503 [retry]}]
}
