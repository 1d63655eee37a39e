/** Alert targets with their deliveries, a test, and a form for new ones. */
import { useState } from 'preact/hooks'
import { ALERT_FORMATS, ALERT_TOPIC_NAMES, ALERT_TOPICS } from '../../domain/alerts.ts'
import { capitalize, count } from '../../domain/text.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { FormPage, Page } from '../shell/page.tsx'
import { Button, ButtonLink, Code, Id, Secret } from '../ui/controls.tsx'
import { Fact, State, TimeFact, When } from '../ui/figure.tsx'
import { Form, SelectField, SwitchField, TextField, useForm } from '../ui/form.tsx'
import { announce, Empty, Overlay, RowsRoom, tell, Unread } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import type { Told } from '../upstreams/words.ts'
import { addTarget, type Delivery, removeTarget, type Target, testTarget, useDeliveries, useTargets } from './data.ts'
import { SettingsFrame } from './page.tsx'
import { NEW_TARGET, toSummary } from './words.ts'

const newTarget = () =>
  may('owner') && (
    <ButtonLink kind="main" icon="plus" href={toHref('/settings/alerts/new')} data-new>
      New target
    </ButtonLink>
  )

export function AlertsPage() {
  const { data: targets, problem, reload } = useTargets()
  const open = targets?.find(({ id }) => id === query.value.get('target'))
  return (
    <SettingsFrame title="Alerts" actions={targets !== null && targets.length > 0 && newTarget()}>
      <Unread of={targets} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {targets?.length === 0 && <NoTargets />}
      {targets !== null && targets.length > 0 && (
        <div class="sections">
          <Table caption="Alert targets" columns={TARGETS} rows={targets} idOf={({ id }) => id} />
          <Deliveries />
        </div>
      )}
      {open && <TargetDialog key={open.id} of={open} onClose={() => setQuery({ target: null })} />}
    </SettingsFrame>
  )
}

const NoTargets = () => (
  <Empty title="No alert targets yet">
    <p>
      Tollgate can post to Slack-compatible chats and webhooks what needs attention: budgets at 50, 80, and 100%,
      upstreams that are down, and more, each once, with its end.
    </p>
    {newTarget()}
    <p class="dim">Or from the command line:</p>
    <Code label="Command that adds a target" text="tollgate alerts add --name team-chat" />
  </Empty>
)

const DELIVERY_KINDS = { delivered: 'good', pending: 'warn', failed: 'bad' } as const

const DeliveryState = ({ of: { state } }: { of: Delivery }) => <State kind={DELIVERY_KINDS[state]}>{state}</State>

const TARGETS: readonly Column<Target>[] = [
  {
    name: 'name',
    title: 'Name',
    sortBy: ({ name }) => name,
    cell: ({ id, name }) => (
      <a class="row-link" href={toHrefWith({ target: id })}>
        {name}
      </a>
    ),
  },
  { name: 'url', title: 'URL', isOnPhone: false, cell: ({ url }) => <code>{url}</code> },
  { name: 'topics', title: 'Topics', cell: ({ topics }) => topics?.join(', ') ?? 'all' },
  {
    name: 'last',
    title: 'Last delivery',
    cell: ({ last }) =>
      last === null ? (
        <span class="dim">none yet</span>
      ) : (
        <>
          <DeliveryState of={last} /> <When ms={last.at_ms} />
        </>
      ),
  },
]

function Deliveries() {
  const { data: deliveries, problem, reload } = useDeliveries()
  return (
    <section class="drawer-part">
      <h2>Deliveries</h2>
      <Unread of={deliveries} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {deliveries?.length === 0 && <p class="dim">Nothing has been sent yet.</p>}
      {deliveries !== null && deliveries.length > 0 && (
        <Table caption="Deliveries" columns={DELIVERIES} rows={deliveries} idOf={({ id }) => id} />
      )}
    </section>
  )
}

const DELIVERIES: readonly Column<Delivery>[] = [
  {
    name: 'state',
    title: 'Status',
    cell: (delivery) => (
      <>
        <DeliveryState of={delivery} />
        {delivery.attempts > 1 && <span class="dim"> after {count(delivery.attempts, 'attempt')}</span>}
      </>
    ),
  },
  { name: 'target', title: 'Target', sortBy: ({ target }) => target, cell: ({ target }) => target },
  {
    name: 'what',
    title: 'Message',
    cell: (delivery) => (
      <>
        {toSummary(delivery)}
        {delivery.error !== null && <p class="dim">{capitalize(delivery.error)}</p>}
      </>
    ),
  },
  { name: 'at', title: 'Time', isFigure: true, sortBy: ({ at_ms }) => at_ms, cell: ({ at_ms }) => <When ms={at_ms} /> },
]

function TargetDialog({ of: target, onClose }: { of: Target; onClose(): void }) {
  const form = useForm({}, async () => {
    await removeTarget(target.id)
    tell(`Removed ${target.name}.`)
    onClose()
  })
  return (
    <Overlay title={`Alert target ${target.name}`} onClose={onClose}>
      <p class="drawer-line">
        <span class="dim">ID</span> <Id id={target.id} />
      </p>
      <dl class="facts">
        <Fact name="URL">
          <code>{target.url}</code>
        </Fact>
        <Fact name="Format">{ALERT_FORMATS[target.format]}</Fact>
        <Fact name="Topics">{target.topics?.join(', ') ?? 'all'}</Fact>
        <TimeFact name="Added" ms={target.created_ms} />
        {target.last?.error && <Fact name="Last error">{target.last.error}</Fact>}
      </dl>
      {may('editor') && <TestButton of={target} />}
      {may('owner') && (
        <Form of={form} submit="Remove target" kind="bad">
          <p class="dim">Nothing more is sent there, and its deliveries are removed.</p>
        </Form>
      )}
    </Overlay>
  )
}

const SENDING: Told = { kind: 'off', word: 'Sending…' }

function TestButton({ of: { id } }: { of: Pick<Target, 'id'> }) {
  const [result, setResult] = useState<Told | null>(null)
  const send = async () => {
    setResult(SENDING)
    const error = await testTarget(id).then(
      (delivery) => delivery.error,
      (refusal: Error) => refusal.message,
    )
    const told: Told =
      error === null ? { kind: 'good', word: 'Delivered.' } : { kind: 'bad', word: `Not delivered: ${error}` }
    setResult(told)
    announce(told.word)
  }
  return (
    <div class="test">
      <Button onClick={send} aria-disabled={result === SENDING}>
        Send test message
      </Button>
      {result !== null && (
        <span class="test-result">
          <State kind={result.kind}>{result.word}</State>
        </span>
      )}
    </div>
  )
}

/** Short labels: a phone truncates longer ones. */
const FORMATS = [
  ['', 'Automatic'],
  ['slack', 'Slack-compatible'],
  ['json', 'Signed JSON'],
] as const

export function NewTargetPage() {
  const [added, setAdded] = useState<Awaited<ReturnType<typeof addTarget>> | null>(null)
  const form = useForm(NEW_TARGET, async (values) => {
    setAdded(await addTarget(values))
    announce('Alert target added.')
    scrollTo(0, 0)
  })
  if (added)
    return (
      <Page
        title={`Alert target ${added.name}`}
        above={<a href={toHref('/settings/alerts')}>Alerts</a>}
        actions={<ButtonLink href={toHref('/settings/alerts')}>Done</ButtonLink>}
      >
        <div class="made">
          {added.secret !== null && (
            <>
              <Secret text={added.secret} label="Copy signing secret" />
              <p>
                <strong>You won't see it again.</strong> Your receiver needs it to verify signatures, as libraries of
                Standard Webhooks do.
              </p>
            </>
          )}
          <TestButton of={added} />
        </div>
      </Page>
    )
  return (
    <FormPage title="New alert target" list={['/settings/alerts', 'Alerts']} form={form} submit="Add target">
      <TextField
        of={form}
        name="url"
        label="URL"
        hint="Webhook URL of a chat or of your own receiver. It is stored encrypted and not shown again."
        isCode
        autoFocus
      />
      <TextField of={form} name="name" label="Name" hint="Default: the URL's host." />
      <SelectField
        of={form}
        name="format"
        label="Format"
        hint="Automatic: Slack for hooks.slack.com, else signed JSON."
        options={FORMATS}
      />
      <fieldset>
        <legend>Topics</legend>
        {ALERT_TOPIC_NAMES.map((topic) => (
          <SwitchField key={topic} of={form} name={topic} label={capitalize(ALERT_TOPICS[topic])} />
        ))}
      </fieldset>
    </FormPage>
  )
}
