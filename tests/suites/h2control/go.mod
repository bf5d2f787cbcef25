module h2control

go 1.26.0

require (
	github.com/fatih/color v1.19.0
	github.com/inconshreveable/mousetrap v1.1.0
	github.com/mattn/go-colorable v0.1.14
	github.com/mattn/go-isatty v0.0.20
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/summerwind/h2spec v2.2.1+incompatible
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.43.0
)
