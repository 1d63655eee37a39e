/** A Bun macro: runs while the code is bundled or loaded, and is replaced by its result. */
import { Kind, type TObject, type TSchema } from '@sinclair/typebox'
import { RequestSchema } from './request.ts'

export function toRequestNames(): { fields: string[]; nullable: string[]; all: string[] } {
  const { properties } = RequestSchema
  const names = new Set<string>()
  addNames(RequestSchema, names, new Set())
  return {
    fields: Object.keys(properties),
    nullable: properties.messages.items.anyOf.flatMap(({ properties, required = [] }: TObject) =>
      Object.keys(properties).filter((name) => !required.includes(name)),
    ),
    all: [...names],
  }
}

/** @param seen schemas already visited: many occur in several places. */
function addNames(schema: TSchema, names: Set<string>, seen: Set<TSchema>): void {
  if (seen.has(schema)) return
  seen.add(schema)
  if (schema.items) addNames(schema.items, names, seen)
  for (const branch of schema[Kind] === 'Union' ? schema.anyOf : []) addNames(branch, names, seen)
  for (const name in schema.properties) {
    names.add(name)
    addNames(schema.properties[name], names, seen)
  }
}
