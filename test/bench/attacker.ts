/** One attack as a process: `bun test/bench/attacker.ts ATTACK ORIGIN CREDENTIAL`. Runs until killed. */
import { connect } from 'node:net'
import { type Attacker, attackOf, isAttack, NAMES } from './attacks.ts'

const [, , name = '', origin = '', credential = ''] = process.argv
const OWN_HEADERS = { authorization: `Bearer ${credential}`, 'content-type': 'application/json' }
/** Without a pause, cheap refusals would be requested as fast as the machine can. */
const PAUSE_MS = 5

const attacker: Attacker = {
  origin,
  credential,
  flood(connections, ask) {
    let turn = 0
    const again = async () => {
      for (;;) {
        const { path = '/v1/chat/completions', body, method, headers, leaveMs } = ask(turn++)
        try {
          const answer = await fetch(`${origin}${path}`, {
            method: method ?? (body === undefined ? 'GET' : 'POST'),
            headers: { ...OWN_HEADERS, ...headers },
            ...(body === undefined ? {} : { body }),
            ...(leaveMs === undefined ? {} : { signal: AbortSignal.timeout(leaveMs) }),
          })
          for await (const _ of answer.body ?? []);
        } catch {
          // Refused or cut off.
        }
        await Bun.sleep(PAUSE_MS)
      }
    }
    for (let i = 0; i < connections; i += 1) void again()
  },
  hold(connections, words, isReading = true) {
    const { hostname, port } = new URL(origin)
    const open = () => {
      const socket = connect(Number(port), hostname, () => socket.write(words))
      socket.on('error', () => {})
      if (isReading) socket.on('data', () => {})
      else socket.pause()
      socket.on('close', () => setTimeout(open, 1_000))
    }
    for (let i = 0; i < connections; i += 1) open()
    // Paused sockets don't keep a process running.
    setInterval(() => {}, 60_000)
  },
}

if (!isAttack(name)) throw new Error(`no attack '${name}'; there are ${NAMES.join(', ')}`)
attackOf(name).start(attacker)
