// Command make writes the models of the tests with a real engine into a folder, to run them by hand.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/foregate/foregate/internal/llamatest"
)

func main() {
	dir := flag.String("dir", ".", "the folder, which exists")
	flag.Parse()
	if err := llamatest.WritePair(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
