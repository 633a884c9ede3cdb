// Command ingot-runner serves one model to the daemon that started it, over
// file descriptor 3; with --inspect FOLDER it prints what a model is.
package main

import (
	"os"

	"ingot/runtime/runner"
	"ingot/runtime/runner/load"
)

func main() {
	os.Exit(runner.Main(os.Args[1:], os.Stdout, os.Stderr, load.Loader{}, load.Known()))
}
