package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newStats() *cobra.Command {
	var c cluster
	cmd := &cobra.Command{
		Use:   "stats [ITEM]",
		Short: "Print a broker's answer to stats, verbatim",
		Long:  "Prints what the broker says of itself, or of an item: help lists the items, a topic's name is one too.",
		Example: "  metaq stats\n" +
			"  metaq stats topics\n" +
			"  metaq stats test",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			item := ""
			if len(args) > 0 {
				item = args[0]
			}
			cl, err := c.open(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer cl.Close()
			text, err := cl.Stats(cmd.Context(), item)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return output(err)
		},
	}
	c.flags(cmd)
	return cmd
}
