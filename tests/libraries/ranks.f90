! ranks.f90 - the same calls by Fortran, in the form of its header and of its module.
program ranks
  use mpi
  implicit none
  integer :: rank, error, status(MPI_STATUS_SIZE), i
  double precision :: numbers(4), sums(4)
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  numbers = rank
  do i = 1, 10
    if (rank == 0) then
      call MPI_SEND(numbers, 4, MPI_DOUBLE_PRECISION, 1, 5, MPI_COMM_WORLD, error)
    else
      call MPI_RECV(numbers, 4, MPI_DOUBLE_PRECISION, 0, 5, MPI_COMM_WORLD, status, error)
    end if
  end do
  call MPI_ALLREDUCE(numbers, sums, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_FINALIZE(error)
end program ranks
