/** How what is said of a team is typed, for `teams create` and `teams edit`: a property of teams is an entry of the one list here. */
import type { Command } from 'commander'
import type { TeamChanges } from '../keys/teams.ts'
import {
  addOptions,
  type Flags,
  type Manner,
  once,
  SHARED,
  type TypedOption,
  toBudgetOption,
  toTypedChanges,
} from './shared-options.ts'
import { toCount, toName } from './values.ts'

const OPTIONS: readonly TypedOption<TeamChanges>[] = [
  {
    flags: '--name <name>',
    says: 'what it is called; no two have the same name',
    read: once((text) => ({ name: toName(text, '') })),
  },
  SHARED.model,
  SHARED.scope,
  SHARED.rpm,
  SHARED.tpm,
  SHARED.concurrency,
  toBudgetOption('what all its keys together may cost'),
  {
    flags: '--max-keys <n>',
    says: 'how many keys a member may make for themselves, once members can; of keys made here there may be any number (default: 10)',
    none: { maxKeys: null },
    read: once((text) => ({ maxKeys: toCount('--max-keys', text) })),
  },
  SHARED.metadata,
]

/** Adds all of them to a command. */
export const addTeamOptions = (command: Command, manner: Manner) => addOptions(command, OPTIONS, manner)

/** Reads them. Throws a usage error for the first that is wrong. */
export const toTeamChanges = (said: Flags, manner: Manner, nowMs: number): TeamChanges =>
  toTypedChanges(said, OPTIONS, manner, nowMs)
