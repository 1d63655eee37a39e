/**
 * The table of endpoints: each way from a client's format to an upstream's, and a gateway with all of them.
 * `test/gateway/doors-*.test.ts` test each promise for each row. Realtime has no row: its requests are turns of one
 * WebSocket, without a separate response to fail over, refuse, or cancel (`test/gateway/realtime.test.ts`).
 */
import type { ServeConfig } from '../../src/config.ts'
import { type LedgerRow, startApp, type TestApp } from './app.ts'
import { type Asked, CLIENT_FORMATS, type ClientFormat } from './door-clients.ts'
import { answering, COUNTS, UPSTREAM_FORMATS, type UpstreamFormat } from './door-upstreams.ts'
import { HELLO_COUNTED } from './gateway.ts'
import { until } from './until.ts'
import { type ScriptedUpstream, startUpstream } from './upstream.ts'

export interface Door {
  name: string
  /** Prefix of its models and upstreams. */
  id: string
  client: ClientFormat
  upstream: UpstreamFormat
  lane: 'native' | 'translated'
  /** The client's route of another format, called when this one's upstream fails. */
  across: string | null
}

type ClientName = keyof typeof CLIENT_FORMATS
type UpstreamName = keyof typeof UPSTREAM_FORMATS

function toDoor(client: ClientName, upstream: UpstreamName, across: UpstreamName | null = null): Door {
  const lane = client === upstream && NATIVE.includes(client) ? 'native' : 'translated'
  return {
    name: `${CLIENT_FORMATS[client].path} ${lane === 'native' ? 'as it came' : `before ${upstream}`}`,
    id: `${client}-${upstream}`,
    client: CLIENT_FORMATS[client],
    upstream: UPSTREAM_FORMATS[upstream],
    lane,
    across: across && `${client}-${across}`,
  }
}

const NATIVE: readonly string[] = ['messages', 'responses', 'completions', 'gemini']

export const DOORS: readonly Door[] = [
  toDoor('chat', 'chat', 'messages'),
  toDoor('chat', 'messages', 'chat'),
  toDoor('messages', 'messages', 'chat'),
  toDoor('messages', 'chat', 'messages'),
  toDoor('responses', 'responses', 'chat'),
  toDoor('responses', 'chat', 'responses'),
  toDoor('completions', 'completions'),
  toDoor('gemini', 'gemini', 'chat'),
  toDoor('gemini', 'chat', 'gemini'),
  toDoor('gemini', 'messages'),
  toDoor('embeddings', 'embeddings'),
  toDoor('rerank', 'rerank'),
  toDoor('moderations', 'moderations'),
  toDoor('transcriptions', 'transcriptions'),
  toDoor('translations', 'translations'),
  toDoor('speech', 'speech'),
  toDoor('images', 'images'),
  toDoor('image_edits', 'image_edits'),
]

/** True if its models write tokens. */
export const writes = ({ client }: Pick<Door, 'client'>): boolean => ['text', 'speech', 'image'].includes(client.makes)

export const STREAMING = DOORS.flatMap((door) => {
  const { stream } = door.upstream
  return stream ? [{ ...door, stream }] : []
})

/** Text streams: they may grow, and another upstream may take over until their first word. */
export const WRITING = STREAMING.filter(({ client }) => client.makes === 'text')

const doorOf = (id: string): Door => {
  const found = DOORS.find((door) => door.id === id)
  if (!found) throw new Error(`there is no door ${id}`)
  return found
}

/** The route that takes over. */
export const acrossOf = ({ across }: Door): Door | null => (across === null ? null : doorOf(across))

/** Our own count of `HELLO_TEXT` and `WORDS`, if the upstream reports nothing. */
export const ownCountOf = ({ client, stream }: (typeof STREAMING)[number]) =>
  client.makes === 'speech'
    ? { prompt: 3, completion: 1 }
    : { prompt: stream.countsFirst ? COUNTS.prompt : HELLO_COUNTED, completion: 3 }

/** Nano-dollars. */
export const costOf = (prompt: number, completion: number) => prompt * 1_000 + completion * 2_000

/** One upstream, two, or two of which the second has another format. */
export type Route = 'one' | 'both' | 'across'

export interface DoorGateway {
  app: TestApp
  near: ScriptedUpstream
  /** The second target. */
  far: ScriptedUpstream
  ask(door: Door, asked?: Asked & Asking): Promise<Response>
  /** Rows since `near` and `far` were set to succeed, once there are so many and all are settled. */
  rows(count: number): Promise<DoorRow[]>
  /** Makes both upstreams succeed, and clears penalties. */
  calm(door: Door): Promise<void>
  stop(): Promise<void>
}

export interface DoorRow extends LedgerRow {
  endpoint: string
  lane: string
}

export interface Asking {
  route?: Route
  key?: string
  headers?: Record<string, string>
  signal?: AbortSignal
  /** Replaces the whole request. */
  body?: string
}

export interface DoorOptions {
  config?: Partial<ServeConfig>
  /** Settings of every first upstream, after a comma. */
  settings?: string
  /** Price of every first route, if it differs from the model's. */
  firstPrice?: string
  /** Max output tokens of every model; default 1,000. */
  most?: number
  /** Capabilities of every model, such as `[reasoning]`; default none. */
  features?: string
}

export async function startDoors({
  config = {},
  settings = '',
  firstPrice = '',
  most,
  features,
}: DoorOptions = {}): Promise<DoorGateway> {
  const [near, far] = await Promise.all([startUpstream(), startUpstream()])
  const app = await startApp({
    catalog: toDoorCatalogue({ near: near.url, far: far.url, settings, firstPrice, most, features }),
    config,
  })
  const usual = app.key()
  let before = 0
  const fresh = () => app.rows().slice(before) as DoorRow[]
  const rows = async (count: number) => {
    const isSo = async () => {
      await app.flushed()
      return fresh().length === count && fresh().every(({ status }) => status !== 'open')
    }
    await until(`${count} settled rows`, isSo)
    return fresh()
  }
  return {
    app,
    near,
    far,
    ask(door, { route = 'one', key = usual, headers = {}, signal, body, ...asked } = {}) {
      const { path, pathOf, encode } = door.client
      const model = (pathOf && modelIn(body)) ?? `${door.id}/${route}`
      const own = pathOf ? body?.replace(/^\{"model":"[^"]*",?/, '{') : body
      const json = own ?? JSON.stringify({ ...(pathOf ? {} : { model }), ...door.client.body(asked) })
      const sent = encode?.(json) ?? { type: 'application/json', body: json }
      return fetch(`${app.baseUrl}${pathOf?.(model, asked.stream === true) ?? path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': sent.type, ...headers },
        body: sent.body,
        ...(signal ? { signal } : {}),
      })
    },
    rows,
    async calm(door) {
      near.script(answering(door.upstream))
      far.script(answering(door.upstream))
      app.pass(10 * 60_000)
      before = await app.count()
    },
    async stop() {
      await Promise.all([near.stop(), far.stop()])
      await app.stop()
    },
  }
}

/** The model of a request, which replaces the default. */
const modelIn = (body: string | undefined): string | undefined => /^\{"model":"([^"]*)"/.exec(body ?? '')?.[1]

const PRICE = '{ prompt: "0.000001", completion: "0.000002" }'
const FACTS = 'context_length: 100000, input_modalities: [text]'
const toChat = (most: number, features: string, made = 'text') =>
  `${FACTS}, max_output_length: ${most}, output_modalities: [${made}], supported_features: ${features}`

export interface Places {
  /** Base URLs. */
  near: string
  far: string
  /** Settings of every first upstream, after a comma. */
  settings?: string
  price?: string
  /** Settings of every first route. */
  firstPrice?: string
  most?: number | undefined
  features?: string | undefined
  /** Base URL of an upstream for realtime sessions with `realtime/one`. */
  talk?: string | undefined
}

/** A catalog with the models of all endpoints. */
export function toDoorCatalogue({
  near,
  far,
  settings = '',
  price = PRICE,
  firstPrice = '',
  most = 1_000,
  features = '[]',
  talk,
}: Places): string {
  const upstreams = DOORS.map(
    ({ id, upstream }) => `
  ${id}: { ${upstream.settings}, base_url: "${near}", api_key: \${UPSTREAM_KEY}${settings} }
  ${id}-far: { ${upstream.settings}, base_url: "${far}", api_key: \${UPSTREAM_KEY} }`,
  )
  const models = DOORS.map(({ id, client, across }) => {
    const facts = `name: A, ${client.makes === 'text' ? toChat(most, features) : `${FACTS}, max_output_length: 1, output_modalities: [${client.makes}], supported_features: []`}, pricing: [${price}]`
    const own = firstPrice === '' ? '' : `, pricing: [${firstPrice}]`
    const first = `{ upstream: ${id}, model: m-v1${own} }`
    const second = (of: string) => `{ upstream: ${of}-far, model: m-v2, priority: 1 }`
    return `
  ${id}/one: { ${facts}, routes: [${first}] }
  ${id}/both: { ${facts}, routes: [${first}, ${second(id)}] }
  ${across === null ? '' : `${id}/across: { ${facts}, routes: [${first}, ${second(across)}] }`}`
  })
  if (talk !== undefined) {
    upstreams.push(`\n  realtime: { dialect: openai, base_url: "${talk}", api_key: \${UPSTREAM_KEY} }`)
    models.push(`
  realtime/one: { name: A, ${toChat(most, features, 'text, realtime')}, pricing: [${price}], routes: [{ upstream: realtime, model: m-v1 }] }`)
  }
  return `version: 1\nupstreams: ${upstreams.join('')}\nmodels: ${models.join('')}\n`
}
