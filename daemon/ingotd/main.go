// Ingotd is the daemon: it owns the socket and the life of every model.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"ingot/daemon"
)

func main() {
	verbose := flag.Bool("v", false, "log to standard error too")
	runner := flag.String("runner", "", "the runner `program` (default: ingot-runner beside this one)")
	version := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *version {
		fmt.Println("ingotd", daemon.Version)
		return
	}
	opt, err := daemon.FromEnvironment(daemon.Options{Verbose: *verbose})
	if *runner != "" {
		opt.Runner = []string{*runner}
	}
	if err == nil {
		err = daemon.Run(context.Background(), opt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingotd:", err)
		os.Exit(1)
	}
}
