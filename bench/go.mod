module github.com/metaq-go/metaq/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/metaq-go/metaq v0.0.0
)

require golang.org/x/sys v0.50.0 // indirect

replace github.com/metaq-go/metaq => ../
