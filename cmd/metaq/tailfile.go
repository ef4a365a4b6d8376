package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/tail4go"
)

// tailFile is the configuration of metaq tail -f. Flags that are given win over it.
type tailFile struct {
	Server string      `yaml:"server"`
	State  string      `yaml:"state"`
	Host   string      `yaml:"host"`
	KeepCR bool        `yaml:"keep_cr"`
	Idle   string      `yaml:"idle"`
	Inputs []tailInput `yaml:"inputs"`
}

type tailInput struct {
	Name    string   `yaml:"name"`
	Paths   []string `yaml:"paths"`
	Exclude []string `yaml:"exclude"`
	Topic   string   `yaml:"topic"`
	From    string   `yaml:"from"`
	Key     string   `yaml:"key"`
}

// fromFile reads the file; its errors name file, line and key.
func (t *tail) fromFile(cmd *cobra.Command) (cfg tail4go.Config, err error) {
	f, err := os.Open(t.file)
	if err != nil {
		return cfg, err
	}
	defer f.Close()
	var file tailFile
	if err := yaml.NewDecoder(f, yaml.Strict()).Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return cfg, fmt.Errorf("%s: %s", t.file, yaml.FormatError(err, false, true))
	}
	if file.Server != "" && !cmd.Flags().Changed("server") {
		t.server = file.Server
	}
	cfg = tail4go.Config{StateDir: file.State, Host: file.Host, KeepCR: file.KeepCR || t.keepCR, Idle: t.idle}
	if t.state != "" {
		cfg.StateDir = t.state
	}
	if file.Idle != "" && t.idle == 0 {
		if cfg.Idle, err = time.ParseDuration(file.Idle); err != nil {
			return cfg, fmt.Errorf("%s: idle: %w", t.file, err)
		}
	}
	cfg.IdlePartial = cfg.Idle > 0
	if len(file.Inputs) == 0 {
		return cfg, fmt.Errorf("%s: inputs: none given", t.file)
	}
	for i, in := range file.Inputs {
		start, err := parseStart(in.From)
		if err != nil {
			return cfg, fmt.Errorf("%s: inputs[%d]: from: %w", t.file, i, err)
		}
		cfg.Inputs = append(cfg.Inputs, tail4go.Input{
			Name: in.Name, Patterns: in.Paths, Exclude: in.Exclude, Topic: in.Topic, Start: start, Key: in.Key,
		})
	}
	return cfg, nil
}
