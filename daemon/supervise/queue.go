package supervise

import "sync"

// queue is a mailbox whose put never blocks. What it holds is bounded by
// those who put: frames under way and calls of clients that wait.
type queue[T any] struct {
	ready chan struct{} // holds one token while there may be something

	mu     sync.Mutex
	items  []T
	closed bool
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

// put adds an item; after close it is dropped.
func (q *queue[T]) put(v T) {
	q.mu.Lock()
	if !q.closed {
		q.items = append(q.items, v)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns everything put so far, and whether the queue is closed.
func (q *queue[T]) take() ([]T, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items, q.closed
}

func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}
