/** A gateway for tests of limits and budgets: prices as in `gateway.ts`, ten times as high on `far`. */
import type { ServeConfig } from '../../src/config.ts'
import { createTeam, type TeamOptions } from '../../src/keys/service.ts'
import { type LedgerRow, startApp, type TestApp } from '../support/app.ts'
import { HELLO } from '../support/gateway.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Stream, type Whole, wholeAnswer } from '../support/upstream-answers.ts'

export interface Bench {
  app: TestApp
  near: ScriptedUpstream
  /** Behind `far` and `single-far`. */
  far: ScriptedUpstream
  ask(key: string, body?: Record<string, unknown>, signal?: AbortSignal): Promise<Response>
  /** Makes a team. */
  team(options: TeamOptions): void
  stop(): Promise<void>
}

export interface BenchOptions {
  tight?: string
  config?: Partial<ServeConfig>
}

export async function startBench({ tight = '', config = {} }: BenchOptions = {}): Promise<Bench> {
  const [near, far] = [await startUpstream(), await startUpstream()]
  const app = await startApp({ catalog: toCatalogue(near.url, far.url, tight), config })
  return {
    app,
    near,
    far,
    ask: (key, body = {}, signal) =>
      fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ ...HELLO, ...body }),
        ...(signal ? { signal } : {}),
      }),
    team: (options) => app.change((store, by) => createTeam(store, options, by)),
    async stop() {
      await near.stop()
      await far.stop()
      await app.stop()
    },
  }
}

const CHEAP = '[{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'
const DEAR = '[{ prompt: "0.00001", completion: "0.00002" }]'
const SPECIAL =
  '[{ prompt: "0.000001", completion: "0.000002", input_cache_write: "0.000003", internal_reasoning: "0.000005" }]'

function toCatalogue(near: string, far: string, tight: string): string {
  const facts = 'context_length: 32768, input_modalities: [text], output_modalities: [text]'
  const short = `${facts}, max_output_length: 1000, supported_features: []`
  const onFar = `{ upstream: far, model: far-v1, priority: 1, pricing: ${DEAR} }`
  return `
version: 1
upstreams:
  near: { dialect: openai, base_url: "${near}" }
  far: { dialect: openai, base_url: "${far}" }
  tight: { dialect: openai, base_url: "${near}", ${tight} }
  single: { dialect: openai, base_url: "${near}", n: false, max_tokens_field: max_completion_tokens }
  single-far: { dialect: openai, base_url: "${far}", n: false }
models:
  acme/large: { name: Large, ${short}, pricing: ${CHEAP}, routes: [{ upstream: near, model: near-v1 }] }
  acme/tight: { name: Tight, ${short}, pricing: ${CHEAP}, routes: [{ upstream: tight, model: tight-v1 }] }
  acme/both: { name: Both, ${short}, pricing: ${CHEAP}, routes: [{ upstream: near, model: near-v1 }, ${onFar}] }
  acme/spare: { name: Spare, ${short}, pricing: ${CHEAP}, routes: [{ upstream: tight, model: tight-v1 }, ${onFar}] }
  acme/single: { name: Single, ${short}, pricing: ${CHEAP}, routes: [{ upstream: single, model: s-v1 }, { upstream: single-far, model: s-v2, priority: 1 }] }
  acme/long: { name: Long, ${facts}, max_output_length: 16000, supported_features: [], pricing: ${CHEAP}, routes: [{ upstream: near, model: long-v1 }] }
  acme/uneven: { name: Uneven, ${facts}, max_output_length: 16000, supported_features: [], pricing: ${CHEAP}, routes: [{ upstream: near, model: long-v1 }, { upstream: far, model: far-v1, priority: 1, max_output_length: 500 }] }
  acme/deep: { name: Deep, ${facts}, max_output_length: 16000, supported_features: [reasoning], pricing: ${SPECIAL}, routes: [{ upstream: near, model: deep-v1 }] }
  acme/dear: { name: Dear, ${facts}, max_output_length: 16000, supported_features: [], pricing: ${CHEAP}, routes: [{ upstream: near, model: near-v1 }, ${onFar}] }
  acme/thinker: { name: Thinker, ${facts}, max_output_length: 1000, supported_features: [reasoning], pricing: ${SPECIAL}, routes: [{ upstream: near, model: thinker-v1 }] }
`
}

/** Answers held back until `free` is called. */
export function createGate() {
  const { promise: after, resolve: free } = Promise.withResolvers<void>()
  return {
    free,
    /** Whole answers are sent as one-piece streams: only streams can wait. */
    held: (answer: Whole | Stream): Stream =>
      answer.kind === 'stream'
        ? { ...answer, after }
        : {
            kind: 'stream',
            status: answer.status ?? 200,
            headers: { 'content-type': 'application/json', ...answer.headers },
            steps: [JSON.stringify(answer.body)],
            end: 'eof',
            after,
          },
  }
}

export const billing = (prompt: number, completion: number, more: Partial<Omit<Whole, 'kind' | 'body'>> = {}) =>
  wholeAnswer({ usage: { prompt_tokens: prompt, completion_tokens: completion }, ...more })

export interface Refusal {
  status: number
  message: string
  type: string
  code: string | null
  headers: Headers
}

export async function toRefusal(response: Response): Promise<Refusal> {
  const { error } = JSON.parse(await response.text())
  return { status: response.status, headers: response.headers, ...error }
}

export const headersFrom = (response: { headers: Headers }, ...beginnings: string[]): Record<string, string> =>
  Object.fromEntries(
    [...response.headers].filter(([name]) => beginnings.some((beginning) => name.startsWith(beginning))),
  )

/** Undefined if the request has no ledger row. */
export const rowOf = ({ app }: Bench, { headers }: { headers: Headers }): LedgerRow | undefined =>
  app.rows().find(({ id }) => `req_${id}` === headers.get('x-request-id'))
