package ipc

// Method names one call of the protocol.
type Method = string

// Methods of the daemon. The values are frozen.
const (
	DaemonStatus  Method = "daemon.status"
	DaemonWatch   Method = "daemon.watch"
	DaemonUnwatch Method = "daemon.unwatch"
	DaemonStop    Method = "daemon.stop"

	ModelsList   Method = "models.list"
	ModelsShow   Method = "models.show"
	ModelsPull   Method = "models.pull"
	ModelsRemove Method = "models.remove"
	ModelsLoad   Method = "models.load"
	ModelsUnload Method = "models.unload"
	ModelsPin    Method = "models.pin"
	ModelsAlias  Method = "models.alias"

	ChatCreate       Method = "chat.create"
	CompletionCreate Method = "completion.create"
	TurnCancel       Method = "turn.cancel"
	TurnAttach       Method = "turn.attach"

	TokensEncode Method = "tokens.encode"
	TokensDecode Method = "tokens.decode"
	TokensCount  Method = "tokens.count"

	LogsTail    Method = "logs.tail"
	RPCDiscover Method = "rpc.discover"
)

// Notifications from the daemon. The values are frozen.
const (
	NoteTurn   Method = "turn.event"   // params: turn.Event
	NoteDaemon Method = "daemon.event" // params: Event
	NotePull   Method = "pull.event"   // params: PullEvent
)
