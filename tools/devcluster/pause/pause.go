// The process that holds a pod's namespaces open: it sleeps until it is told
// to end, and collects the processes that it inherits. With any argument it ends
// with an error, as a program does that is interrupted in its work.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			if len(os.Args) > 1 {
				os.Exit(143)
			}
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}
