package file_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/metaq-go/metaq/connectors/file"
	"github.com/metaq-go/metaq/pipeline"
	"github.com/metaq-go/metaq/pipeline/pipelinetest"
)

func Example() {
	stdin := strings.NewReader("GET /\nPOST /orders\n")

	var sink pipelinetest.Sink[string]
	top := pipeline.New("methods", pipeline.Config{Mode: pipeline.Ordered})
	lines := pipeline.From(top, file.Reader("stdin", stdin), func(l file.Line) (string, error) {
		method, _, _ := strings.Cut(l.Text, " ")
		return method, nil
	})
	lines.To(&sink)
	if err := top.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sink.Values())
	// Output: [GET POST]
}
