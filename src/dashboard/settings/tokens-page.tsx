/** Admin API tokens, for owners. */

import { useState } from 'preact/hooks'
import { TOKEN_FIELDS } from '../../identity/definition.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { ExpiryFields } from '../keys/fields.tsx'
import { NEW_EXPIRY } from '../keys/values.ts'
import { toOptions } from '../people/words.ts'
import { FormPage, Page } from '../shell/page.tsx'
import { ButtonLink, Code, Id, Secret, ShownOnce } from '../ui/controls.tsx'
import { Fact, State, TimeFact, When } from '../ui/figure.tsx'
import { Form, SelectField, TextField, useForm } from '../ui/form.tsx'
import { announce, Empty, Overlay, RowsRoom, tell, Unread } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { makeToken, revokeToken, type Token, useTokens } from './data.ts'
import { SettingsFrame } from './page.tsx'
import { toCurl } from './words.ts'

const newToken = () => (
  <ButtonLink kind="main" icon="plus" href={toHref('/settings/tokens/new')} data-new>
    New token
  </ButtonLink>
)

export function TokensPage() {
  const { data: tokens, problem, reload } = useTokens()
  const open = tokens?.find(({ id }) => id === query.value.get('token'))
  return (
    <SettingsFrame title="Tokens" actions={tokens !== null && tokens.length > 0 && newToken()}>
      <Unread of={tokens} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {tokens !== null &&
        (tokens.length === 0 ? (
          <NoTokens />
        ) : (
          <Table caption="Tokens" columns={COLUMNS} rows={tokens} idOf={({ id }) => id} />
        ))}
      {open && <TokenDialog key={open.id} of={open} onClose={() => setQuery({ token: null })} />}
    </SettingsFrame>
  )
}

const NoTokens = () => (
  <Empty title="No tokens yet">
    <p>
      Tokens let scripts use the <a href={toHref('/reference?document=admin')}>admin API</a>: create keys, read usage,
      edit models. They can't manage tokens or users. To call models, a script needs a key.
    </p>
    {newToken()}
    <p class="dim">Or from the command line:</p>
    <Code label="Command that creates a token" text="tollgate admin token create grafana" />
  </Empty>
)

function TokenState({ of: { revoked_ms, expires_ms } }: { of: Token }) {
  if (revoked_ms !== null) return <State kind="off">revoked</State>
  if (expires_ms !== null && expires_ms <= nowMs.value) return <State kind="off">expired</State>
  return <State kind="good">active</State>
}

const SCOPE_WORDS = { read: 'read', write: 'read and write' } as const

const COLUMNS: readonly Column<Token>[] = [
  {
    name: 'name',
    title: 'Name',
    sortBy: ({ name }) => name,
    cell: ({ id, name, token }) => (
      <>
        <a class="row-link" href={toHrefWith({ token: id })}>
          {name}
        </a>{' '}
        <span class="dim not-on-phone">…{token.slice(-4)}</span>
      </>
    ),
  },
  { name: 'state', title: 'Status', cell: (token) => <TokenState of={token} /> },
  { name: 'scope', title: 'Access', sortBy: ({ scope }) => scope, cell: ({ scope }) => SCOPE_WORDS[scope] },
  {
    name: 'ends',
    title: 'Expires',
    isFigure: true,
    sortBy: ({ expires_ms }) => expires_ms ?? Number.MAX_SAFE_INTEGER,
    cell: ({ expires_ms }) =>
      expires_ms === null ? <span class="dim">never</span> : <When ms={expires_ms} mayBeAhead />,
  },
  {
    name: 'made',
    title: 'Created',
    isFigure: true,
    isOnPhone: false,
    sortBy: ({ created_ms }) => created_ms,
    cell: ({ created_ms }) => <When ms={created_ms} />,
  },
]

function TokenDialog({ of: token, onClose }: { of: Token; onClose(): void }) {
  const form = useForm({}, async () => {
    await revokeToken(token.id)
    tell(`Revoked ${token.name}.`)
    onClose()
  })
  return (
    <Overlay title={`Token ${token.name}`} onClose={onClose}>
      <p class="drawer-line">
        <TokenState of={token} />
        <span class="dim">ID</span> <Id id={token.id} />
      </p>
      <dl class="facts">
        <Fact name="Access">{SCOPE_WORDS[token.scope]}</Fact>
        <Fact name="Secret">
          <code>{token.token}</code>
        </Fact>
        <Fact name="Expires">{token.expires_ms === null ? 'never' : <When ms={token.expires_ms} mayBeAhead />}</Fact>
        <TimeFact name="Created" ms={token.created_ms} />
        <TimeFact name="Revoked" ms={token.revoked_ms} />
      </dl>
      {token.revoked_ms === null && (
        <Form of={form} submit="Revoke token" kind="bad">
          <p class="dim">Requests with this token fail immediately. This can't be undone. The audit log is kept.</p>
        </Form>
      )}
    </Overlay>
  )
}

export function NewTokenPage() {
  const [made, setMade] = useState<Awaited<ReturnType<typeof makeToken>> | null>(null)
  const form = useForm({ ...NEW_EXPIRY, name: '', scope: 'read' }, async (values) => {
    setMade(await makeToken(values))
    announce('Token created. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  if (made) {
    return (
      <Page
        title={`Token ${made.name}`}
        above={<a href={toHref('/settings/tokens')}>Tokens</a>}
        actions={<ButtonLink href={toHref('/settings/tokens')}>Done</ButtonLink>}
      >
        <div class="made">
          <Secret text={made.token} label="Copy token" />
          <ShownOnce />
          <h2>Example</h2>
          <Code label="Command that lists all keys" text={toCurl(location.origin, made.token)} />
        </div>
      </Page>
    )
  }
  return (
    <FormPage title="New token" list={['/settings/tokens', 'Tokens']} form={form} submit="Create token">
      <TextField of={form} name="name" label={TOKEN_FIELDS.name.title} hint={TOKEN_FIELDS.name.hint} autoFocus />
      <SelectField of={form} name="scope" label={TOKEN_FIELDS.scope.title} options={toOptions(TOKEN_FIELDS.scope)} />
      <ExpiryFields form={form} />
    </FormPage>
  )
}
