// Ingot-fake-runner is package fakerunner as a process, for tests.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"ingot/daemon/fakerunner"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "--inspect" {
		fmt.Printf("{\"folder\": %q, \"family\": \"fake\"}\n", os.Args[2])
		return
	}
	load, _ := time.ParseDuration(os.Getenv("FAKE_LOAD"))
	fail, _ := strconv.Atoi(os.Getenv("FAKE_FAIL"))
	os.Exit(fakerunner.Run(os.NewFile(3, "fd3"), fakerunner.Options{
		Load: load, Fail: fail, Stubborn: os.Getenv("FAKE_STUBBORN") != "", Exit: os.Exit,
	}))
}
