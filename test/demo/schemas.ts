/**
 * Any schema of the strict subset that some value matches: every type and keyword, unions, nested
 * definitions and recursion that can end. Bounds are placed around a number that was drawn first.
 */
import fc from 'fast-check'

type Schema = Record<string, unknown>

/** Names with characters that a JSON pointer escapes. */
const DEFINITIONS = ['node', 'a/b~c %']

const toPointer = (name: string) => `#/$defs/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`

const FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']

const string = fc.oneof(
  fc.constant<Schema>({ type: 'string' }),
  fc.constantFrom(...FORMATS).map((format) => ({ type: 'string', format })),
)

const STEPS = [1, 2, 7, 1000, 0.5, 0.25, 0.1, 0.01, 2.5]
const bound = (value: number | undefined, name: string) => (value === undefined ? {} : { [name]: value })
const distance = fc.option(fc.constantFrom(0, 0.5, 1, 3, 1e9), { nil: undefined })

const number = fc
  .record({
    type: fc.constantFrom('number', 'integer'),
    step: fc.option(fc.constantFrom(...STEPS), { nil: undefined }),
    count: fc.integer({ min: -5_000, max: 5_000 }),
    below: distance,
    above: distance,
    exclusive: fc.boolean(),
  })
  .map(({ type, step: drawn, count, below, above, exclusive }): Schema => {
    const step = type === 'integer' && drawn !== undefined ? Math.ceil(drawn) : drawn
    const whole = type === 'integer' ? 100 : 1
    const inside = Number((count * whole * (step ?? 1)).toPrecision(15))
    const [low, high] = [below, above].map((by) => (exclusive && by === 0 ? 0.25 : by))
    return {
      type,
      ...bound(step, 'multipleOf'),
      ...bound(low === undefined ? undefined : inside - low, exclusive ? 'exclusiveMinimum' : 'minimum'),
      ...bound(high === undefined ? undefined : inside + high, exclusive ? 'exclusiveMaximum' : 'maximum'),
    }
  })

const value = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null))
const values = fc.oneof(
  fc
    .array(fc.string(), { minLength: 1, maxLength: 5 })
    .map((list): Schema => ({ type: 'string', enum: [...new Set(list)] })),
  fc.uniqueArray(value, { minLength: 1, maxLength: 5 }).map((list): Schema => ({ enum: list })),
  value.map((only): Schema => ({ const: only })),
)

/** A reference back into the schema, and an end of the recursion. */
const reference = fc
  .tuple(fc.constantFrom('#', ...DEFINITIONS.map(toPointer)), fc.constantFrom('null', 'list', 'text'), fc.boolean())
  .map(([$ref, out, first]): Schema => {
    if (out === 'list') return { type: 'array', items: { $ref } }
    const other = out === 'null' ? { type: 'null' } : { type: 'string' }
    return { anyOf: first ? [{ $ref }, other] : [other, { $ref }] }
  })

/** The validator doesn't accept `__proto__` as a name. */
const name = fc
  .oneof(fc.string({ minLength: 1, maxLength: 12 }), fc.constantFrom('toString', 'type', '$ref', 'é~/%'))
  .filter((one) => one !== '__proto__')

const toObject = (inner: fc.Arbitrary<Schema>) =>
  fc.uniqueArray(fc.tuple(name, inner), { selector: ([key]) => key, maxLength: 4 }).map(
    (entries): Schema => ({
      type: 'object',
      properties: Object.fromEntries(entries),
      required: entries.map(([key]) => key),
      additionalProperties: false,
    }),
  )

const { any } = fc.letrec<{ any: Schema }>((tie) => {
  const list = fc
    .record({
      items: tie('any'),
      least: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }),
      room: fc.nat(2),
    })
    .map(
      ({ items, least, room }): Schema => ({
        type: 'array',
        items,
        ...(least === undefined ? {} : { minItems: least, maxItems: least + room }),
      }),
    )
  const union = fc.array(tie('any'), { minLength: 1, maxLength: 3 }).map((anyOf): Schema => ({ anyOf }))
  const nullable = fc.constantFrom('string', 'integer').map((type): Schema => ({ type: [type, 'null'] }))
  const plain = fc.oneof(string, number, values, fc.constantFrom<Schema>({ type: 'boolean' }, { type: 'null' }))
  const titled = fc.tuple(tie('any'), fc.string()).map(([schema, description]): Schema => ({ ...schema, description }))
  return {
    any: fc.oneof({ maxDepth: 4 }, plain, nullable, reference, titled, list, union, toObject(tie('any'))),
  }
})

export const strictSchema = fc
  .tuple(toObject(any), ...DEFINITIONS.map(() => toObject(any)))
  .map(([root, ...defined]) => ({
    ...root,
    $defs: Object.fromEntries(DEFINITIONS.map((key, i) => [key, defined[i]])),
  }))
