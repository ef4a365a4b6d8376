// Package file is a source of lines: of files that nobody writes to any more, or of any io.Reader, such as standard input.
//
// It feeds package pipeline. Files that grow are the business of tail4go.
//
//	top := pipeline.New("load", pipeline.Config{})
//	lines := pipeline.From(top, file.Lines("2025-11.log", "2025-12.log"), parse)
package file
