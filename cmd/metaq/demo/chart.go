package demo

import (
	"fmt"
	"io"
	"strings"
)

const (
	chartWidth = 50
	chartRows  = 20
)

// chart draws bars of values that belong to consecutive seconds, several seconds to a bar when there are many.
func chart(w io.Writer, title string, values []int) {
	if len(values) == 0 {
		return
	}
	step := (len(values) + chartRows - 1) / chartRows
	var bars []float64
	biggest := 0.0
	for i := 0; i < len(values); i += step {
		sum, n := 0, 0
		for _, v := range values[i:min(i+step, len(values))] {
			sum += v
			n++
		}
		bar := float64(sum) / float64(n)
		bars = append(bars, bar)
		biggest = max(biggest, bar)
	}
	fmt.Fprintf(w, "%s\n", title)
	for i, bar := range bars {
		n := 0
		if biggest > 0 {
			n = int(bar/biggest*chartWidth + 0.5)
		}
		fmt.Fprintf(w, "%5d s │%s %.0f\n", i*step, strings.Repeat("█", n), bar)
	}
}
