package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
	"github.com/metaq-go/metaq/sinks/file"
)

type Hit struct {
	Route  string `json:"route"`
	Status int    `json:"status"`
}

func Example() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	sink, err := file.Open(file.Config[Hit]{Dir: dir, Prefix: "hits"})
	if err != nil {
		fmt.Println(err)
		return
	}
	src := pipelinetest.NewSource("access", []Hit{{"/", 200}, {"/orders", 503}})
	src.Finish()
	top := pipeline.New("keep", pipeline.Config{Mode: pipeline.Ordered})
	pipeline.From(top, src, pipelinetest.Same[Hit]).To(sink, pipeline.Batch(10_000, time.Second))
	if err := top.Run(context.Background()); err != nil {
		fmt.Println(err)
	}

	names, _ := filepath.Glob(filepath.Join(dir, "hits-*.jsonl"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fmt.Print(string(text))
	}
	// Output:
	// {"route":"/","status":200}
	// {"route":"/orders","status":503}
}
