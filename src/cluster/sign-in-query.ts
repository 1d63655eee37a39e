/** Queries for sign-ins. Without PostgreSQL, no session can begin. */
import { ServiceError } from '../domain/service-error.ts'
import { type Postgres, PostgresRefusal } from '../store/postgres/client.ts'

export type SignInQuery = <Row = object>(text: string, values: readonly unknown[]) => Promise<Row[]>

/** Throws `cluster_unreachable`. */
export const createSignInQuery =
  (postgres: Pick<Postgres, 'query'>): SignInQuery =>
  async <Row>(text: string, values: readonly unknown[]) => {
    try {
      return await postgres.query<Row>(text, values)
    } catch (error) {
      if (!(error instanceof PostgresRefusal)) throw error
      throw new ServiceError(
        { kind: 'cluster_unreachable', isInDoubt: false },
        `Signing in needs the cluster's PostgreSQL, which can't be used: ${error.message} Try again once it is back.`,
      )
    }
  }
