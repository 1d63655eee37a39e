/** How what can be set on keys and teams is typed: options of commands, by its definition. */
import { type Command, Option } from 'commander'
import {
  type FieldsOf,
  KEY_FIELDS,
  type KeyChanges,
  namesOf,
  TEAM_FIELDS,
  type TeamChanges,
} from '../keys/definition.ts'
import { usageError } from './command-error.ts'
import { readOption } from './values.ts'

/** What was typed, by the names that commander gives the options. */
export type Flags = Readonly<Record<string, string[]>>

/** Whether `none` may be said: of what is there already, it takes something away. */
interface Manner {
  canBeNone: boolean
}

function addOptions<Changes>(command: Command, fields: FieldsOf<Changes>, { canBeNone }: Manner): Command {
  for (const name of namesOf(fields)) {
    const { option, none } = fields[name]
    const typed = new Option(option.flag, none !== undefined && canBeNone ? `${option.help}; or none` : option.help)
    command.addOption(typed.argParser((text, before: string[] = []) => [...before, text]))
  }
  return command
}

export const addKeyOptions = (command: Command, manner: Manner) => addOptions(command, KEY_FIELDS, manner)
export const addTeamOptions = (command: Command, manner: Manner) => addOptions(command, TEAM_FIELDS, manner)

/** Reads the options. Throws a usage error for the first that is wrong. */
function toTypedChanges<Changes extends object>(
  fields: FieldsOf<Changes>,
  said: Flags,
  { canBeNone }: Manner,
  nowMs: number,
): Partial<Changes> {
  const changes: Partial<Changes> = {}
  for (const name of namesOf(fields)) {
    const { option, none } = fields[name]
    const typed = new Option(option.flag)
    const texts = said[typed.attributeName()] ?? []
    if (texts.length === 0) continue
    const isNone = none !== undefined && canBeNone && texts.includes('none')
    if (isNone && texts.length > 1) throw usageError(`${typed.long} none stands alone.`)
    Object.assign(changes, { [name]: isNone ? none : readOption(`${typed.long}`, () => option.read(texts, nowMs)) })
  }
  return changes
}

export const toKeyChanges = (said: Flags, manner: Manner, nowMs: number): KeyChanges =>
  toTypedChanges(KEY_FIELDS, said, manner, nowMs)
export const toTeamChanges = (said: Flags, manner: Manner, nowMs: number): TeamChanges =>
  toTypedChanges(TEAM_FIELDS, said, manner, nowMs)
