/** Invalid requests for property tests, as JSON text: values can't express everything that breaks parsers. */
import fc from 'fast-check'
import { anyRequest } from './any-request.ts'

const HOSTILE = [
  '1e400',
  '-1e400',
  '1e-400',
  '-0',
  '9007199254740993',
  '123456789012345678901234567890',
  '0.1e1',
  '2.0',
  '"\\ud800"',
  '"\\u0000"',
  '{"a":1,"a":{}}',
  '{"__proto__":{"model":1}}',
  '{"constructor":{"prototype":{}}}',
  '{"toJSON":1,"length":-1,"then":true}',
  `"${'x'.repeat(100_000)}"`,
  `[${'0,'.repeat(5_000)}0]`,
  ...[50, 3_000, 20_000].flatMap((depth) => [
    `${'['.repeat(depth)}${']'.repeat(depth)}`,
    `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
  ]),
]

interface Mutation {
  at: number
  how: 'drop' | 'replace' | 'insert'
  key: string
  /** JSON text. */
  value: string
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.nat({ max: 10_000 }),
  how: fc.constantFrom('drop', 'replace', 'insert'),
  key: fc.constantFrom(
    'role',
    'content',
    'type',
    'function',
    'tools',
    'stream',
    'n',
    'strict',
    '$ref',
    'properties',
    'x',
  ),
  value: fc.oneof(
    fc.constantFrom(...HOSTILE),
    fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
    fc.constantFrom('null', 'true', '""', '[]', '{}', '-1', '0', '129', '"auto"', '"assistant"', '{"type":"object"}'),
  ),
})

export const anyBrokenText = (model: string): fc.Arbitrary<string> =>
  fc.tuple(anyRequest(model), fc.array(mutation, { minLength: 1, maxLength: 4 })).map(([request, mutations]) => {
    const pieces: string[] = []
    const root: Record<string, unknown> = structuredClone(request)
    for (const { at, how, key, value } of mutations) {
      const places = [...placesIn(root)]
      const place = places[at % places.length]
      if (!place) continue
      const [holder, name] = place
      // Hostile text is not a value: it replaces a placeholder in the JSON text.
      const mark = `@@${pieces.push(value) - 1}@@`
      if (how === 'drop') Reflect.deleteProperty(holder, name)
      else if (how === 'replace') Reflect.set(holder, name, mark)
      else if (Array.isArray(holder)) holder.push(mark)
      else Reflect.set(holder, key, mark)
    }
    return JSON.stringify(root).replace(/"@@(\d+)@@"/g, (_, index) => pieces[Number(index)] ?? 'null')
  })

function* placesIn(holder: object): Generator<[object, string]> {
  for (const [name, value] of Object.entries(holder)) {
    yield [holder, name]
    if (typeof value === 'object' && value !== null) yield* placesIn(value)
  }
}
