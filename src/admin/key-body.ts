/** What bodies say of keys and of teams, by their definition; the services check the values. */
import { type TSchema, Type } from '@sinclair/typebox'
import { PERIODS } from '../domain/limits.ts'
import { type Body, columnOf, type Field, type FieldsOf, type Kind, namesOf } from '../keys/definition.ts'
import { exactly, oneOf, orNone } from './schema.ts'

const Texts = Type.Array(Type.String())

const SCHEMAS: Readonly<Record<Exclude<Kind, 'budget'>, TSchema>> = {
  ...{ name: Type.String(), patterns: Texts, ranges: Texts, scope: oneOf(['all', 'local']), team: Type.String() },
  ...{ count: Type.Integer(), time: Type.Integer() },
  metadata: Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()])),
}

/** Of one that is made, and of a change. @param isOwn for a member, who may say less. */
export function toBodies<Changes extends { name?: string }>(fields: FieldsOf<Changes>, isOwn = false) {
  const properties = namesOf(fields)
    .filter((name) => !(isOwn && fields[name].isForEditors))
    .flatMap((name) => toProperties(name, fields[name]))
  const all = Object.fromEntries(properties)
  return {
    Made: Type.Unsafe<Body<Changes> & { name: string }>(
      exactly({ ...all, name: { ...SCHEMAS.name, description: fields.name.says } }),
    ),
    Patch: Type.Unsafe<Body<Changes>>(exactly(all)),
  }
}

function toProperties<Value>(name: string, { kind, says, none }: Field<Value>): [column: string, schema: TSchema][] {
  if (kind !== 'budget') {
    const schema = SCHEMAS[kind]
    return [[columnOf(name), none === null ? orNone(schema, says) : { ...Type.Optional(schema), description: says }]]
  }
  const description = 'When the budget begins again (UTC); `total`: never.'
  return [
    ['budget_nano_usd', orNone(Type.Integer(), says)],
    ['budget_period', Type.Optional(oneOf(PERIODS, { description }))],
  ]
}
