/** What changes of the configuration are called in the audit log. */

/** All of them: a group, a dot, and what is done to one of it. */
export const AUDIT_ACTIONS = [
  'keys.create',
  'keys.edit',
  'keys.rotate',
  'keys.revoke',
  'teams.create',
  'teams.edit',
  'catalog.apply',
  'catalog.revert',
  'upstreams.create',
  'upstreams.edit',
  'upstreams.delete',
  'models.edit',
  'models.reset',
  'routes.set',
  'routes.delete',
  'database.restore',
  'settings.edit',
  'backups.create',
  'backups.download',
  'admins.create',
  'admins.edit',
  'admins.code',
  'admins.password',
  'sessions.begin',
  'sessions.end',
  'tokens.create',
  'tokens.revoke',
] as const
export type AuditAction = (typeof AUDIT_ACTIONS)[number]
