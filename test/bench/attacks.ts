/**
 * The attacks of `attack.ts`, each what one key, or whoever can connect, may do to the others. To add one, add it to the table;
 * where it needs an upstream of its own make, add a word to `attack-upstream.ts`.
 */
import { MODEL, NATIVE_MODEL } from './tollgate.ts'

/** What the attacking process (`attacker.ts`) has at hand. */
export interface Attacker {
  origin: string
  /** The hostile key, or what `prepare` has returned. */
  credential: string
  /** Sends requests over so many connections until the process is killed. Waits for each answer, then pauses. */
  flood(connections: number, ask: (turn: number) => Asked): void
  /** Keeps so many connections open that have sent `words` and nothing more. */
  hold(connections: number, words: string): void
}

export interface Asked {
  /** Chat completions, if left out. */
  path?: string
  /** JSON text; left out for a GET. */
  body?: string
  /** POST or GET, if left out. */
  method?: string
  headers?: Record<string, string>
  /** The attacker leaves after so long; left out, it waits for the end. */
  leaveMs?: number
}

/** The server under attack. */
export interface Attacked {
  origin: string
  /** The executable and the data folder, for commands. */
  binary: string
  data: string
}

export interface Attack {
  /** Begins the attack. Runs in the attacker's process. */
  start(attacker: Attacker): void
  /** Runs before the attack, and returns the credential that the attacker gets in place of the hostile key. */
  prepare?(attacked: Attacked): Promise<string>
  /** Fields of the bystander's question beside the usual ones. */
  question?: Record<string, unknown>
  /** How many files the server may open; left out, as many as its user. */
  files?: number
}

const repeat = (piece: string, times: number) => Array.from({ length: times }, () => piece).join(',')
const toBody = (fields: Record<string, unknown>, content: unknown = 'hello') =>
  JSON.stringify({ model: MODEL, messages: [{ role: 'user', content }], ...fields })

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
  JSON.stringify({ model: MODEL, messages: messages(21_000) }),
  JSON.stringify({ model: MODEL, messages: [...messages(21_000), { role: 'wizard' }] }),
]

const toFormat = (name: string, schema: Record<string, unknown>) => ({
  response_format: {
    type: 'json_schema',
    json_schema: {
      name,
      strict: true,
      schema: {
        type: 'object',
        properties: { answer: { type: 'string', ...schema } },
        required: ['answer'],
        additionalProperties: false,
      },
    },
  },
})

/** Requests for streams that the upstream never begins, one for each format whose events may have no content. */
const SILENT = 'silent'
const SILENCES: readonly Asked[] = [
  {
    path: '/v1/messages',
    body: JSON.stringify({
      model: NATIVE_MODEL,
      max_tokens: 100,
      stream: true,
      messages: [{ role: 'user', content: SILENT }],
    }),
  },
  { body: toBody({ stream: true }, SILENT) },
  { path: '/v1/responses', body: JSON.stringify({ model: MODEL, stream: true, input: SILENT }) },
]

const PASSWORD = 'correct horse battery staple'

/** Lets a member sign in, and returns the cookie of their session. */
async function signInMember({ origin, binary, data }: Attacked): Promise<string> {
  const run = (...words: string[]) => Bun.spawnSync([binary, ...words, '--data', data, '--json']).stdout.toString()
  run('teams', 'create', '--name', 'members')
  const { code } = JSON.parse(run('admin', 'create', 'mallory', '--role', 'member', '--team', 'members'))
  const answer = await askAdmin(origin, '', '/code', { name: 'mallory', code, password: PASSWORD })
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0]
  if (cookie === undefined) throw new Error(`the member could not sign in: ${answer.status} ${await answer.text()}`)
  return cookie
}

const askAdmin = (origin: string, cookie: string, path: string, body: object) =>
  fetch(`${origin}/admin/api${path}`, {
    method: 'POST',
    headers: { origin, cookie, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

/** Creates keys and revokes them, for ever. */
async function changeKeys({ origin, credential }: Attacker, name: string): Promise<void> {
  for (let turn = 0; ; turn++) {
    try {
      const created = await askAdmin(origin, credential, '/own/keys', { name: `${name}-${turn}` })
      const { id } = (await created.json()) as { id?: string }
      if (id !== undefined) await (await askAdmin(origin, credential, `/own/keys/${id}/revoke`, {})).text()
    } catch {
      // Refused or cut off.
    }
    await Bun.sleep(5)
  }
}

export const ATTACKS = {
  bodies: {
    start({ flood }) {
      const bodies = toBodies()
      flood(4, (turn) => ({ body: bodies[turn % bodies.length] ?? '' }))
    },
  },
  uploads: {
    start: ({ hold, credential }) =>
      hold(
        4_200,
        `POST /v1/chat/completions HTTP/1.1\r\nhost: tollgate\r\nauthorization: Bearer ${credential}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{"model":`,
      ),
  },
  schemas: {
    question: toFormat('answer', {}),
    // A pattern that a backtracking engine never comes to the end of, each time another one.
    start: ({ flood }) =>
      flood(60, (turn) => ({ body: toBody(toFormat('hostile', { pattern: `^(a+)+$|^never${turn}$` }), 'hostile') })),
  },
  poison: { start: ({ flood }) => flood(8, () => ({ body: toBody({}, 'poison') })) },
  connections: {
    // Only few fit beside the server's own files.
    files: 256,
    start: ({ hold }) => hold(600, ''),
  },
  silence: {
    start: ({ flood }) => flood(3, (turn) => ({ ...SILENCES[turn % SILENCES.length], leaveMs: 10_000 })),
  },
  members: {
    prepare: signInMember,
    start(attacker) {
      for (const name of ['a', 'b', 'c', 'd']) void changeKeys(attacker, name)
    },
  },
  answers: {
    start: ({ flood }) => flood(4, (turn) => ({ body: toBody({}, `large ${turn}`) })),
  },
  refusals: {
    // Without a key. The path is about as long as a request line may be.
    prepare: async () => '',
    start: ({ flood }) => flood(64, (turn) => ({ path: `/${turn}/${'x'.repeat(12_000)}` })),
  },
} as const satisfies Record<string, Attack>

export type AttackName = keyof typeof ATTACKS
export const NAMES = Object.keys(ATTACKS) as AttackName[]
/** Its entry, with all that an entry may have. */
export const attackOf = (name: AttackName): Attack => ATTACKS[name]
export const isAttack = (name: string): name is AttackName => Object.hasOwn(ATTACKS, name)
