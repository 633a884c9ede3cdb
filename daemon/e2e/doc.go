// Package e2e runs scripts against the real programs: ingotd, ingot and a
// runner, the fake one for what goes wrong, the real one for what must be
// right.
//
// It has no code of its own; the scripts lie in testdata, a new case is a new
// file. Beside testscript's own commands they have:
//
//	daemon [ARG...]       start ingotd on this script's home and wait until it answers
//	sigterm               end it by SIGTERM; its standard error becomes stderr
//	model NAME [FILE...]  a tiny model in the catalogue that only the fake runner takes;
//	                      FILE is copied over the made ones, or left out with -FILE
//	starter               the starter model in the catalogue, as smollm2-135m
//	rpc JSON              one request on a connection of its own; prints what comes
//	                      until its response, and a stream's last event, are there
//	send JSON             one request on a connection that stays, and does not wait
//	expect REGEXP         reads that connection until a line matches; fails at its end
//	hangup                closes that connection
//	capture VAR FILE RE   sets a variable to the first group of RE in FILE (or stdout)
//	killrunner MODEL      kill -9 the model's process
//	state MODEL STATE     wait until the model is in that state
package e2e
