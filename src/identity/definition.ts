/**
 * Fields of users and script tokens: API bodies and descriptions, command options, and form labels follow from them. A new field needs an entry here, a
 * property in `StoredAdmin` or `StoredToken`, and a column; the compiler finds the rest.
 */
import type { Role, TokenScope } from '../domain/roles.ts'
import { type InputFieldsOf, KEY_FIELDS, once, readChoice } from '../keys/definition.ts'

export interface AdminOptions {
  name: string
  role: Role
  /** Members only: a team's ID or name. */
  team?: string | null
}

export type AdminChanges = Partial<Omit<AdminOptions, 'name'>> & { disabled?: boolean }

export interface TokenOptions {
  name: string
  scope: TokenScope
  expiresMs?: number | null
}

const RIGHTS: Readonly<Record<Role, string>> = {
  owner: 'everything, including users and credentials',
  editor: 'keys, teams, and models',
  viewer: 'read only',
  member: 'their own keys, within a team',
}

const SCOPES: Readonly<Record<TokenScope, string>> = {
  read: "a viewer's permissions",
  write: "an editor's permissions",
}

export const ADMIN_FIELDS: InputFieldsOf<AdminOptions> = {
  name: {
    kind: 'text',
    says: 'Sign-in name.',
    option: { flag: '<name>', help: 'sign-in name, such as an email address', read: once(String) },
    title: 'Name',
    hint: 'Sign-in name, such as an email address. No email is sent.',
  },
  role: {
    kind: 'choice',
    choices: RIGHTS,
    byDefault: 'viewer',
    says: 'Role.',
    option: { flag: '--role <role>', help: 'role', read: readChoice(RIGHTS) },
    title: 'Role',
  },
  team: {
    kind: 'team',
    says: 'Team of a member: ID, part of it, or name; null: none.',
    option: { flag: '--team <team>', help: 'team of a member and of their keys', read: once(String) },
    none: null,
    title: 'Team',
    hint: 'Their keys share its limits, budget, and allowed models.',
  },
}

const { byDefault: _ofNew, ...role } = ADMIN_FIELDS.role

export const ADMIN_CHANGES: InputFieldsOf<AdminChanges> = {
  role,
  team: ADMIN_FIELDS.team,
  disabled: {
    kind: 'switch',
    says: 'True ends their sessions and revokes their own keys.',
    option: {
      flag: '--disable',
      help: 'end their sessions, revoke their own keys, and block sign-in',
      opposite: { flag: '--enable', help: 'allow sign-in again' },
      read: (said) => said.includes('true'),
    },
    title: 'Disabled',
  },
}

export const TOKEN_FIELDS: InputFieldsOf<TokenOptions> = {
  name: {
    ...KEY_FIELDS.name,
    option: { flag: '<name>', help: 'token name, e.g. the script that uses it', read: once(String) },
    hint: 'The script that uses it. Shown in the audit log.',
  },
  scope: {
    kind: 'choice',
    choices: SCOPES,
    byDefault: 'read',
    says: 'Read only, or also write.',
    option: { flag: '--scope <scope>', help: 'read: as a viewer; write: as an editor', read: readChoice(SCOPES) },
    title: 'Scope',
  },
  expiresMs: KEY_FIELDS.expiresMs,
}
