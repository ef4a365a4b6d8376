package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stateDir is where a command keeps what has to survive it when no folder is named: below $XDG_STATE_HOME/metaq, or
// ~/.local/state/metaq. Each of names becomes a folder.
func stateDir(names ...string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no folder for positions: %w; name one by a flag", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(state, "metaq")
	for _, name := range names {
		dir = filepath.Join(dir, strings.Map(func(r rune) rune {
			if strings.ContainsRune("/\\:,[] ", r) {
				return '_'
			}
			return r
		}, strings.TrimPrefix(name, "meta://")))
	}
	return dir, nil
}
