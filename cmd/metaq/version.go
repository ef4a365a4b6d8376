package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/protocol"
)

// versionInfo is what metaq version prints.
type versionInfo struct {
	Version    string   `json:"version"`
	Commit     string   `json:"commit"`
	Go         string   `json:"go"`
	Protocol   string   `json:"protocol"`
	Extensions []string `json:"extensions"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit, Go, and the protocol extensions",
		Example: "  metaq version\n  metaq version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersion()
			if asJSON {
				return output(json.NewEncoder(cmd.OutOrStdout()).Encode(v))
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "metaq %s\ncommit %s\ngo %s\nprotocol MetaQ %s, extensions %s\n",
				v.Version, v.Commit, v.Go, v.Protocol, strings.Join(v.Extensions, " "))
			return output(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object")
	return cmd
}

func readVersion() versionInfo {
	v := versionInfo{Version: broker.Version, Commit: "unknown", Go: runtime.Version(), Protocol: protocol.Level}
	for verb := protocol.VerbAppend; verb <= protocol.VerbTopics; verb++ {
		v.Extensions = append(v.Extensions, verb.String())
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
