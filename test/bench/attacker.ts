/**
 * What one hostile key does, as a process of its own, until it is killed: `bun test/bench/attacker.ts ATTACK ORIGIN KEY MODEL`.
 * Prints nothing: what counts is how others fare meanwhile (`attack.ts`).
 */
import { connect } from 'node:net'
import { ATTACKS, type Attack } from './attacks.ts'

const [, , name = '', origin = '', key = '', model = ''] = process.argv
const url = `${origin}/v1/chat/completions`
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
/** Without a pause a refusal that costs nothing would be asked for as fast as this machine can. */
const PAUSE_MS = 5

/** Asks again and again over so many connections, with whatever `toBody` makes of the number of the request. */
function flood(connections: number, toBody: (turn: number) => string): void {
  let turn = 0
  const ask = async () => {
    for (;;) {
      const answer = await fetch(url, { method: 'POST', headers, body: toBody(turn++) }).catch(() => null)
      await answer?.text().catch(() => null)
      await Bun.sleep(PAUSE_MS)
    }
  }
  for (let i = 0; i < connections; i += 1) void ask()
}

/** Keeps so many connections open that have said `words` and nothing more. */
function hold(connections: number, words: string): void {
  const { hostname, port } = new URL(origin)
  const open = () => {
    const socket = connect(Number(port), hostname, () => socket.write(words))
    socket.on('error', () => {})
    socket.on('data', () => {})
    socket.on('close', () => setTimeout(open, 1_000))
  }
  for (let i = 0; i < connections; i += 1) open()
}

const repeat = (piece: string, times: number) => Array.from({ length: times }, () => piece).join(',')
const toBody = (fields: Record<string, unknown>, content: unknown = 'hello') =>
  JSON.stringify({ model, messages: [{ role: 'user', content }], ...fields })

const messages = (count: number) => Array.from({ length: count }, () => ({ role: 'user', content: 'x' }))

/**
 * A body that is refused, and the most that one may hold, in several shapes: values, names, names that are numbers, strings
 * that are all escapes, a long string, messages, and messages of which the last is wrong.
 */
const toBodies = () => [
  `[${repeat('[]', 11_000_000)}]`,
  toBody({ more: JSON.parse(`[${repeat('[]', 63_900)}]`) }),
  toBody({ more: Object.fromEntries(Array.from({ length: 63_900 }, (_, i) => [`name${i}`, 1])) }),
  toBody({ logit_bias: Object.fromEntries(Array.from({ length: 63_900 }, (_, i) => [i * 1_000, 1])) }),
  toBody({}, '\u0001'.repeat(990_000)),
  toBody({}, 'words '.repeat(5_300_000)),
  JSON.stringify({ model, messages: messages(21_000) }),
  JSON.stringify({ model, messages: [...messages(21_000), { role: 'wizard' }] }),
]

/** A pattern that a backtracking engine never comes to the end of, each time another one. */
const toSchema = (turn: number) => ({
  type: 'json_schema',
  json_schema: {
    name: 'hostile',
    strict: true,
    schema: {
      type: 'object',
      properties: { answer: { type: 'string', pattern: `^(a+)+$|^never${turn}$` } },
      required: ['answer'],
      additionalProperties: false,
    },
  },
})

const START: Record<Attack, () => void> = {
  bodies() {
    const bodies = toBodies()
    flood(4, (turn) => bodies[turn % bodies.length] ?? '')
  },
  uploads: () =>
    hold(
      4_200,
      `POST /v1/chat/completions HTTP/1.1\r\nhost: tollgate\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{"model":`,
    ),
  schemas: () => flood(60, (turn) => toBody({ response_format: toSchema(turn) }, 'hostile')),
  poison: () => flood(8, () => toBody({}, 'poison')),
  connections: () => hold(600, ''),
}

const attack = ATTACKS.find((known) => known === name)
if (!attack) throw new Error(`no attack '${name}'; there are ${ATTACKS.join(', ')}`)
START[attack]()
