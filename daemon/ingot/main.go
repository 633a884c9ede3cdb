// Ingot is the command line: a thin client of the daemon's socket.
package main

import (
	"os"
	"os/signal"

	"ingot/daemon/ingot/cli"
)

func main() {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	os.Exit(cli.Main(os.Args[1:], cli.Terminal(interrupts)))
}
