/**
 * What can be said of those who sign in, and of tokens for scripts: an entry a field, from which follow bodies of the API and what it says
 * of them, options of commands, and what forms call them. A further field is an entry here, beside a property in `StoredAdmin` or
 * `StoredToken` and its column; what does not compile then is the rest. Pure.
 */
import type { Role, TokenScope } from '../domain/roles.ts'
import { KEY_FIELDS, once, readChoice, type SaidOf } from '../keys/definition.ts'

export interface AdminOptions {
  name: string
  role: Role
  /** Of a member, and of nobody else: a team's id or name. */
  team?: string | null
}

export type AdminChanges = Partial<Omit<AdminOptions, 'name'>> & { disabled?: boolean }

export interface TokenOptions {
  name: string
  scope: TokenScope
  expiresMs?: number | null
}

const RIGHTS: Readonly<Record<Role, string>> = {
  owner: 'everything, people and credentials included',
  editor: 'keys, teams and models',
  viewer: 'reads, and changes nothing',
  member: 'makes keys of their own, within a team',
}

const SCOPES: Readonly<Record<TokenScope, string>> = { read: 'what a viewer may', write: 'what an editor may' }

export const ADMIN_FIELDS: SaidOf<AdminOptions> = {
  name: {
    kind: 'text',
    says: 'What they sign in with.',
    option: { flag: '<name>', help: 'what they sign in with, such as an address of mail', read: once(String) },
    title: 'Name',
    hint: 'What they sign in as, such as their address of mail. No mail is sent.',
  },
  role: {
    kind: 'choice',
    choices: RIGHTS,
    byDefault: 'viewer',
    says: 'What they may do.',
    option: { flag: '--role <role>', help: 'what they may do', read: readChoice(RIGHTS) },
    title: 'Role',
  },
  team: {
    kind: 'team',
    says: 'Of a member. By id, a part of it, or name; null: none.',
    option: { flag: '--team <team>', help: 'of a member: the team that keys of their own are of', read: once(String) },
    none: null,
    title: 'Team',
    hint: 'It says what their keys may use, and shares its limits and its budget with them.',
  },
}

const { byDefault: _ofNew, ...role } = ADMIN_FIELDS.role

export const ADMIN_CHANGES: SaidOf<AdminChanges> = {
  role,
  team: ADMIN_FIELDS.team,
  disabled: {
    kind: 'switch',
    says: 'True ends their sessions and revokes keys of their own.',
    option: {
      flag: '--disable',
      help: 'nobody signs in as them any more',
      opposite: { flag: '--enable', help: 'they may sign in again' },
      read: (said) => said.includes('true'),
    },
    title: 'Disabled',
  },
}

export const TOKEN_FIELDS: SaidOf<TokenOptions> = {
  name: {
    ...KEY_FIELDS.name,
    option: { flag: '<name>', help: 'what it is for', read: once(String) },
    hint: 'The script that it is for. What it changes is told by it.',
  },
  scope: {
    kind: 'choice',
    choices: SCOPES,
    byDefault: 'read',
    says: 'Whether it reads, or writes, too.',
    option: { flag: '--scope <scope>', help: 'read: as a viewer; write: as an editor', read: readChoice(SCOPES) },
    title: 'May',
  },
  expiresMs: KEY_FIELDS.expiresMs,
}
