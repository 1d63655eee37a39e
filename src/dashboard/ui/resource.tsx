/** Lists with filters, headline figures, and form dialogs that resource pages share. */

import { type ComponentChildren, Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { capitalize } from '../../domain/text.ts'
import { toHref } from '../address/address.ts'
import type { Editing } from './edit.tsx'
import { Figure } from './figure.tsx'
import { Form, type FormState, useForm } from './form.tsx'
import { Overlay, tell } from './notice.tsx'
import { type Column, ListFoot, More, SearchFilter, STEP, Table } from './table.tsx'

interface ListProps<Row> {
  /** Plural noun for the search field and caption: `keys`. */
  what: string
  columns: readonly Column<Row>[]
  /** After filtering. */
  rows: readonly Row[]
  /** Count before filtering. */
  all: number
  idOf(row: Row): string
  /** Next to the search field. */
  filters?: ComponentChildren
  /** Empty state, and the link that shows all rows. */
  none: readonly [sentence: string, path: string, link: string]
  /** After the count. */
  foot?: string
}

export function List<Row>({ what, columns, rows, all, idOf, filters, none, foot }: ListProps<Row>) {
  const [most, setMost] = useState(STEP)
  const [sentence, path, link] = none
  return (
    <>
      <search class="filters">
        <SearchFilter what={what} />
        {filters}
      </search>
      {rows.length > 0 ? (
        <Table caption={capitalize(what)} {...{ columns, rows, idOf, most }} />
      ) : (
        <p class="dim">
          {sentence} <a href={toHref(path)}>{link}</a>
        </p>
      )}
      <ListFoot shown={rows.length} all={all}>
        {foot}
      </ListFoot>
      <More rows={rows.length} most={most} setMost={setMost} />
    </>
  )
}

export const Headline = ({ of: figures }: { of: readonly (readonly [name: string, figure: ComponentChildren])[] }) => (
  <dl class="headline">
    {figures.map(([name, figure]) => (
      <Figure key={name} name={name}>
        {figure}
      </Figure>
    ))}
  </dl>
)

interface FormDialogProps<Values extends Record<string, string>> {
  title: string
  initial: Values
  /** Returns the confirmation to show; then the dialog closes. */
  send(values: Values): Promise<string>
  submit: string
  /** For an action on something that others may edit. */
  editing?: Pick<Editing<unknown>, 'asksAgain' | 'renew'>
  kind?: 'main' | 'bad'
  isReady?(values: Values): boolean
  /** Above the form. */
  children?: ComponentChildren
  fields?(form: FormState<Values>): ComponentChildren
  onClose(): void
}

export function FormDialog<Values extends Record<string, string>>(props: FormDialogProps<Values>) {
  const { title, initial, send, editing, submit, kind = 'main', isReady, children, fields, onClose } = props
  const form = useForm(
    initial,
    async (values) => {
      tell(await send(values))
      onClose()
    },
    editing,
  )
  return (
    <Overlay title={title} onClose={onClose}>
      {children}
      <Form of={form} submit={submit} kind={kind} isReady={isReady?.(form.values.value) ?? true}>
        <Fragment>{fields?.(form)}</Fragment>
      </Form>
    </Overlay>
  )
}
