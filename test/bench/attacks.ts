/** The attacks of `attack.ts`. Add one to the table, and its response to `attack-upstream.ts` if it needs one. */
import { MEDIA, MODEL, NATIVE_MODEL } from './tollgate.ts'

export interface Attacker {
  origin: string
  /** The hostile key, or what `prepare` returned. */
  credential: string
  /** Floods until killed; each connection waits for its response, then pauses. */
  flood(connections: number, ask: (turn: number) => Asked): void
  /** Keeps connections open that have sent only `words`; `isReading` false: and read nothing. */
  hold(connections: number, words: string, isReading?: boolean): void
}

export interface Asked {
  path?: string
  body?: string | Uint8Array<ArrayBuffer>
  method?: string
  headers?: Record<string, string>
  /** Disconnects after this; omitted: waits for the end. */
  leaveMs?: number
}

/** The server under attack. */
export interface Attacked {
  origin: string
  binary: string
  data: string
}

export interface Attack {
  start(attacker: Attacker): void
  /** Returns the credential that replaces the hostile key. */
  prepare?(attacked: Attacked): Promise<string>
  question?: Record<string, unknown>
  /** Limit of open files; omitted: the user's. */
  files?: number
}

const repeat = (piece: string, times: number) => Array.from({ length: times }, () => piece).join(',')
const toBody = (fields: Record<string, unknown>, content: unknown = 'hello') =>
  JSON.stringify({ model: MODEL, messages: [{ role: 'user', content }], ...fields })

const messages = (count: number) => Array.from({ length: count }, () => ({ role: 'user', content: 'x' }))

/** A refused body, and the largest accepted ones in several shapes. */
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

/** Streams that never begin, for each format with events without content. */
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

const UPLOAD_BYTES = 25 * 1024 ** 2
const BOUNDARY = '----attack'

/** One honest WAV file, and files of other formats that claim anything, at the usual limit of providers. */
const toAudioFiles = () =>
  [
    ['RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\xff\xff\xff\xff', '\0'],
    ['fLaC\0\0\0\x22\x10\0\x10\0\0\0\0\0\0\0\x0a\xc4\x42\xff\xff\xff\xff\xff', '\xff\xf8\xc9\xa8'],
    ['\x1a\x45\xdf\xa3\x80', '\x1f\x43\xb6\x75\x01\xff\xff\xff\xff\xff\xff\xff'],
    ['\x1a\x45\xdf\xa3\x80', '\xa3\x80'],
    ['\0\0\0\x08ftyp', '\x7f\xff\xff\xffmoov\0\0\0\0moov'],
    ['OggS', 'OggS\0\x04\xff\xff\xff\xff\xff\xff\xff\x7f'],
    ['ID3\x04\0\0\x7f\x7f\x7f\x7f', '\xff\xfb\x10'],
  ].map(([start = '', repeated = '']) => {
    const bytes = Buffer.alloc(UPLOAD_BYTES, repeated, 'latin1')
    bytes.write(start, 'latin1')
    return bytes
  })

const toUpload = (file: Uint8Array): Uint8Array<ArrayBuffer> =>
  Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="model"\r\n\r\n${MEDIA.hears}\r\n`),
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`),
    file,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
  ])

/** The maximum length of an input. */
const SPEECH = JSON.stringify({ model: MEDIA.speaks, input: 'words '.repeat(16_666), voice: 'v' })

const PASSWORD = 'correct horse battery staple'

/** Returns the session cookie. */
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
    // A different endless pattern each time for a backtracking engine.
    start: ({ flood }) =>
      flood(60, (turn) => ({ body: toBody(toFormat('hostile', { pattern: `^(a+)+$|^never${turn}$` }), 'hostile') })),
  },
  poison: { start: ({ flood }) => flood(8, () => ({ body: toBody({}, 'poison') })) },
  connections: {
    // Leaves few file descriptors beyond the server's own.
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
  audio: {
    start({ flood }) {
      const uploads = toAudioFiles().map(toUpload)
      flood(100, (turn) => ({
        path: '/v1/audio/transcriptions',
        headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
        body: uploads[turn % uploads.length] ?? new Uint8Array(),
      }))
    },
  },
  pictures: {
    start: ({ flood }) =>
      flood(10, () => ({
        path: '/v1/images/generations',
        body: JSON.stringify({ model: MEDIA.draws, prompt: 'x', n: 10 }),
      })),
  },
  picture_streams: {
    start: ({ flood }) =>
      flood(10, () => ({
        path: '/v1/images/generations',
        body: JSON.stringify({ model: MEDIA.draws, prompt: 'x', stream: true, partial_images: 2 }),
      })),
  },
  speech: {
    start({ hold, credential }) {
      hold(
        200,
        `POST /v1/audio/speech HTTP/1.1\r\nhost: tollgate\r\nauthorization: Bearer ${credential}\r\ncontent-type: application/json\r\ncontent-length: ${SPEECH.length}\r\n\r\n${SPEECH}`,
        false,
      )
    },
  },
  answers: {
    start: ({ flood }) => flood(4, (turn) => ({ body: toBody({}, `large ${turn}`) })),
  },
  refusals: {
    // Without a key; the path is about as long as allowed.
    prepare: async () => '',
    start: ({ flood }) => flood(64, (turn) => ({ path: `/${turn}/${'x'.repeat(12_000)}` })),
  },
} as const satisfies Record<string, Attack>

export type AttackName = keyof typeof ATTACKS
export const NAMES = Object.keys(ATTACKS) as AttackName[]
export const attackOf = (name: AttackName): Attack => ATTACKS[name]
export const isAttack = (name: string): name is AttackName => Object.hasOwn(ATTACKS, name)
