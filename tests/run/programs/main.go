// main.go - goroutines on several threads, a child process, and files: Go makes its system calls without libc unless cgo is used.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

func main() {
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for i := 0; i < 8; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			for k := 0; k < 100; k++ {
				mu.Lock()
				total += i
				mu.Unlock()
				time.Sleep(10 * time.Microsecond)
			}
		}(i)
	}
	wg.Wait()
	out, err := exec.Command("/bin/echo", "from a child").Output()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d %s", total, out)
	os.Exit(5)
}
