package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"ingot/daemon/config"
	"ingot/ipc/server"
	"ingot/ipc/socket"
	"ingot/runtime/turn"
)

// flush bounds the writing of what is owed to clients, and of the runners'
// end, once a drain is over.
const flush = 3 * time.Second

// FromEnvironment fills in what the environment and the configuration say.
func FromEnvironment(opt Options) (Options, error) {
	home, err := config.Home()
	if err != nil {
		return opt, err
	}
	opt.Home, opt.Socket = home, config.Socket(home)
	if opt.Config, err = config.Load(filepath.Join(home, "config.toml")); err != nil {
		return opt, err
	}
	if opt.Config.TCPListen != "" {
		return opt, &config.Error{Key: "tcp.listen", Why: "there is no TCP in this version: leave it out"}
	}
	opt.Faults = os.Getenv("INGOT_FAULTS")
	limit, err := bufferLimit(os.Getenv("INGOT_RSRC_LIMIT"))
	if limit > 0 {
		opt.Config.BufferLimit = limit
	}
	return opt, err
}

// bufferLimit reads INGOT_RSRC_LIMIT; 0: it is not set.
func bufferLimit(s string) (turn.Buffers, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > 1e8 {
		return 0, &config.Error{Key: "INGOT_RSRC_LIMIT", Why: fmt.Sprintf("%q is not a number of buffers, 1 to 100000000", s)}
	}
	return turn.Buffers(n), nil
}

// Run serves until ctx ends, a SIGTERM or SIGINT comes, or a client asks for
// the end; then it drains.
func Run(ctx context.Context, opt Options) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	l, err := listen(opt.Socket)
	if err != nil {
		return err
	}
	d, err := New(opt)
	if err != nil {
		l.Close()
		return err
	}
	return d.serve(ctx, l)
}

// serve answers on l until the end is asked for.
func (d *Daemon) serve(ctx context.Context, l net.Listener) error {
	srv := server.New(d, server.Options{})
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	d.log.Info().Str("version", Version).Int("pid", os.Getpid()).Str("socket", d.opt.Socket).
		Float64("start_ms", float64(time.Since(d.born).Microseconds())/1000).Msg("daemon ready")
	var err error
	select {
	case <-ctx.Done():
	case <-d.quit:
	case err = <-failed:
	}
	d.log.Info().Msg("daemon stopping")
	d.Drain(context.Background()) // ctx has ended already
	end, cancel := context.WithTimeout(context.Background(), flush)
	defer cancel()
	d.bus.Close() // watchers end, or their connections would not
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Shutdown(end) }) // a client that does not read is cut off
	wg.Go(func() { d.Close(end) })
	wg.Wait()
	return err
}

// listen takes the socket the system holds for us, or opens our own.
func listen(path string) (net.Listener, error) {
	given, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("socket activation: %w", err)
	}
	for _, l := range given {
		if l != nil {
			return l, nil
		}
	}
	l, err := socket.Listen(path)
	if errors.Is(err, socket.ErrLive) {
		return nil, fmt.Errorf("%w: another daemon serves there (ingot status asks it, ingot stop ends it)", err)
	}
	if err != nil { // not l, which would be a nil pointer in an interface
		return nil, err
	}
	return l, nil
}
