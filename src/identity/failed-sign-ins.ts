/**
 * Reports failed sign-ins: each in the log, and in the audit log that an account is closed to further attempts, at most once per account
 * and quarter of an hour. A name that is no account's is not logged: people type passwords there.
 */
import { type Log, traceOf } from '../log.ts'
import type { IdentityStore } from '../store/identity-store.ts'
import { Attempts } from './attempts.ts'

/** Counts attempts to sign in, and reports those that fail. */
export const createAttempts = (store: Pick<IdentityStore, 'changeIdentity'>, log: Pick<Log, 'warn' | 'error'>) =>
  new Attempts({
    failed({ address, by }, code) {
      const isPassword = typeof by === 'object'
      log.warn('sign_in_failed', 'a sign-in failed', {
        ip: address,
        method: isPassword ? 'password' : by,
        account: isPassword && by.isKnown ? by.password : null,
        code,
      })
    },
    closed(account, address, nowMs) {
      store
        .changeIdentity({ actor: 'server', nowMs }, ({ admins }) => {
          const subject = admins.find(({ name }) => name === account)?.id ?? ''
          return {
            value: null,
            change: { action: 'admins.close', subject, detail: { name: account, address }, write: {} },
          }
        })
        .catch((error) =>
          log.error('internal_error', 'the audit log has no row of an account that was closed', {
            trace: traceOf(error),
          }),
        )
    },
  })
