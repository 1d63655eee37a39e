/** How what is said of a key is typed, for `keys create` and `keys edit`: a property of keys is an entry of the one list here. */
import type { Command } from 'commander'
import { toIpRange } from '../domain/ip.ts'
import type { KeyChanges } from '../keys/fields.ts'
import { usageError } from './command-error.ts'
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
import { toExpiry, toName } from './values.ts'

const OPTIONS: readonly TypedOption<KeyChanges>[] = [
  {
    flags: '--name <name>',
    says: 'what the key is for; no two in force have the same',
    read: once((text) => ({ name: toName(text, '') })),
  },
  SHARED.model,
  {
    flags: '--allow-ip <cidr>',
    says: 'allow its use from this address or range only, such as 203.0.113.7 or 10.0.0.0/8 (may be repeated)',
    none: { allowedIps: [] },
    read: (texts) => ({ allowedIps: texts.map(toRange) }),
  },
  SHARED.scope,
  {
    flags: '--team <team>',
    says: 'name of a team whose limits and budget it shares, or six digits or more of its id',
    none: { team: null },
    read: once((team) => ({ team })),
  },
  SHARED.rpm,
  SHARED.tpm,
  SHARED.concurrency,
  toBudgetOption('what it may cost'),
  {
    flags: '--expires <time>',
    says: 'such as 90d, 12h or 2027-01-31',
    none: { expiresMs: null },
    read: once((text, nowMs) => ({ expiresMs: toExpiry(text, nowMs) })),
  },
  SHARED.metadata,
]

/** Adds all of them to a command. */
export const addKeyOptions = (command: Command, manner: Manner) => addOptions(command, OPTIONS, manner)

/** Reads them. Throws a usage error for the first that is wrong. */
export const toKeyChanges = (said: Flags, manner: Manner, nowMs: number): KeyChanges =>
  toTypedChanges(said, OPTIONS, manner, nowMs)

function toRange(text: string): string {
  const range = toIpRange(text)
  if ('problem' in range) throw usageError(`--allow-ip '${text}' ${range.problem}.`)
  return text
}
