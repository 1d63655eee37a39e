/** The conformance setup: the built binary with a few models, and its ledger's view of the calls. */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { applyJournal, createWorkplace } from '../support/binary.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { SPEAKERS } from './conformance-speakers.ts'

/** The built-in model. */
export const DEMO = 'tollgate/demo'
/** A model without tools and `response_format`. */
export const PLAIN = 'acme/plain'

export interface Stage {
  /** Ends in `/v1`. */
  baseUrl: string
  key: string
  /** Behind `PLAIN` and all speakers. */
  upstream: ScriptedUpstream
  /** Sums of the last `requests` requests. Throws unless each is settled as `ok`. */
  billed(requests?: number): Promise<Bill>
  close(): Promise<void>
}

export interface Bill {
  prompt: number
  cached: number
  completion: number
  reasoning: number
  costNanoUsd: number
  /** Number of upstream calls. */
  calls: number
}

const FACTS =
  'context_length: 65536, max_output_length: 4096, input_modalities: [text, image, audio, file, video], output_modalities: [text], ' +
  'pricing: [{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" }]'

const FEATURES = 'supported_features: [tools, json_mode, structured_outputs, logprobs, reasoning]'

const toCatalogue = (url: string) => `
version: 1
upstreams:
  demo: { dialect: demo, local: true, pace_ms: 0 }
  scripted: { dialect: openai, base_url: "${url}", api_key: \${UPSTREAM_KEY} }
${SPEAKERS.map(({ toUpstream }, at) => `  speaker-${at}: ${toUpstream(url)}`).join('\n')}
models:
  ${DEMO}: { name: Demo, ${FACTS}, ${FEATURES}, routes: [{ upstream: demo, model: demo }] }
${SPEAKERS.map(({ model }, at) => `  ${model}: { name: Speaker, ${FACTS}, ${FEATURES}, routes: [{ upstream: speaker-${at}, model: v1 }] }`).join('\n')}
  ${PLAIN}: { name: Plain, ${FACTS}, supported_features: [], routes: [{ upstream: scripted, model: plain-v1 }] }
`

/** On an empty data folder with a scripted upstream. `flags` are more of `serve`'s. */
export async function startStage(...flags: string[]): Promise<Stage> {
  const place = createWorkplace()
  const upstream = await startUpstream()
  const catalog = await place.write('catalog.yaml', toCatalogue(upstream.url))
  const server = await place.serve(['--first-key', '--catalog', catalog, ...flags], {
    environment: { UPSTREAM_KEY: 'x' },
  })
  const ledger = new Database(join(place.folder, 'data', 'tollgate.db'), { readonly: true })
  return {
    baseUrl: server.baseUrl,
    key: String(server.key),
    upstream,
    async billed(requests = 1) {
      await applyJournal(join(place.folder, 'data'))
      return toBill(ledger, requests)
    },
    async close() {
      ledger.close()
      await place.close()
      await upstream.stop()
    },
  }
}

/** A request's row sums up its calls; several calls have rows of their own. */
function toBill(ledger: Database, requests: number): Bill {
  const last = `SELECT * FROM requests ORDER BY id DESC LIMIT ${requests}`
  const bill = ledger
    .query<Bill & { settled: number }, []>(
      `SELECT sum(prompt_tokens) AS prompt, sum(cached_tokens) AS cached, sum(completion_tokens) AS completion,
        sum(reasoning_tokens) AS reasoning, sum(cost_nano_usd) AS costNanoUsd, sum(status = 'ok') AS settled,
        count() + (SELECT count() FROM calls WHERE number > 1 AND request_id IN (SELECT id FROM (${last}))) AS calls
      FROM (${last})`,
    )
    .get()
  if (bill?.settled !== requests) throw new Error(`of ${requests} requests ${bill?.settled} are settled`)
  return bill
}

export const usageOf = ({ prompt, cached, completion, reasoning, costNanoUsd }: Bill) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning },
  cost_nano_usd: costNanoUsd,
  cost: costNanoUsd / 1e9,
})

export const failureOf = (pending: Promise<unknown>): Promise<unknown> =>
  pending.then(
    () => 'no failure',
    (error: unknown) => error,
  )
