/** Parses a newer models.dev `api.json`. It is untrusted: invalid models are skipped and counted. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { asObject, parseJson } from '../domain/json.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { KnownModel, KnownProviders } from './known.ts'

const maybe = <T extends TSchema>(schema: T) => Type.Optional(schema)
const tokens = Type.Integer({ minimum: 0, maximum: 100_000_000 })
/** USD per million tokens. A higher price is a mistake. */
const price = maybe(Type.Number({ minimum: 0, maximum: 100_000 }))
const prices = {
  ...{ input: price, output: price, cache_read: price, cache_write: price, reasoning: price },
  ...{ cached_input: price, cached_write: price },
  ...{ input_audio: price, output_audio: price },
}
const words = Type.Array(Type.String(), { maxItems: 100 })

const Model = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 200 }),
  tool_call: maybe(Type.Boolean()),
  structured_output: maybe(Type.Boolean()),
  reasoning: maybe(Type.Boolean()),
  temperature: maybe(Type.Boolean()),
  reasoning_options: maybe(Type.Array(Type.Object({ type: Type.String() }), { maxItems: 20 })),
  limit: Type.Object({ context: tokens, output: tokens }),
  modalities: Type.Object({ input: words, output: words }),
  cost: maybe(
    Type.Object({
      ...prices,
      tiers: maybe(
        Type.Array(Type.Object({ ...prices, tier: Type.Object({ size: Type.Integer({ minimum: 1 }) }) }), {
          maxItems: 20,
        }),
      ),
    }),
  ),
  experimental: maybe(
    Type.Object({
      modes: maybe(
        Type.Record(
          Type.String(),
          Type.Object({
            cost: maybe(Type.Object(prices)),
            provider: maybe(Type.Object({ body: maybe(Type.Record(Type.String(), Type.Unknown())) })),
          }),
        ),
      ),
    }),
  ),
})

// The schema covers every field that is read.
const isModel = (value: unknown): value is KnownModel & Static<typeof Model> => Value.Check(Model, value)

export interface FactsFile {
  known: KnownProviders
  models: number
  /** Invalid models. */
  wrong: number
}

/**
 * @param name shown in messages
 * @throws `facts_unusable` if the text isn't such a list
 */
export function parseFacts(text: string, name: string): FactsFile {
  const known: KnownProviders = {}
  let [models, wrong] = [0, 0]
  for (const [id, value] of Object.entries(toProviders(text, name))) {
    const listed = asObject(asObject(value)?.models)
    if (!listed) continue
    const usable = Object.entries(listed).filter((entry): entry is [string, KnownModel] => isModel(entry[1]))
    wrong += Object.keys(listed).length - usable.length
    models += usable.length
    known[id] = { models: Object.fromEntries(usable) }
  }
  if (models === 0) throw unusable(`${name} has no valid models. Use the api.json of models.dev.`)
  return { known, models, wrong }
}

function toProviders(text: string, name: string): object {
  let json: unknown
  try {
    json = parseJson(text)
  } catch {
    const what = /^\s*</.test(text) ? 'a web page' : 'not valid JSON'
    throw unusable(`${name} is ${what}. Use the api.json of models.dev.`)
  }
  return asObject(json) ?? {}
}

export const unusable = (message: string) => new ServiceError({ kind: 'facts_unusable' }, message)
