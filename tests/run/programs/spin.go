// spin.go - burns CPU time in leaf, which direct and through share equally; leaf has no frame of its own, so that frame pointers alone miss its callers.
package main

var sink [64]uint64

//go:noinline
func leaf(n int) {
	for i := 0; i < n; i++ {
		sink[i&63] += uint64(i)
	}
}

//go:noinline
func through(n int) uint64 {
	leaf(n)
	return sink[0]
}

//go:noinline
func direct(n int) uint64 {
	leaf(n)
	return sink[1]
}

//go:noinline
func work(done chan uint64) {
	var sum uint64
	for i := 0; i < 200; i++ {
		sum += through(5000000) + direct(5000000)
	}
	done <- sum
}

func main() {
	done := make(chan uint64)
	go work(done)
	<-done
}
